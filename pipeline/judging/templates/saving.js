"use strict";
const state = document.getElementById("state");
const byId = (id) => document.getElementById(id);
const saving = { wanted: null, busy: false, target: null };

function say(name) {
  state.textContent = state.dataset[name] || name;
  state.className = name === "saved" || name === "saving" ? "" : "bad";
}

// One request at a time, the newest content last; what fails is tried again until it is kept.
function save(content) {
  saving.wanted = JSON.stringify(content);
  if (!saving.busy) send();
}

async function send() {
  const body = saving.wanted;
  saving.busy = true;
  saving.wanted = null;
  say("saving");
  let kept = null;
  try {
    kept = await fetch(location.pathname, { method: "PUT", body, headers: { "Content-Type": "application/json" } });
  } catch { /* the server is away: as if it had refused */ }
  if (kept?.ok) {
    const count = (await kept.json()).num_done;
    byId("done").textContent = count;
    byId("progress").value = count;
    saving.busy = false;
    if (saving.wanted !== null) return send();
    say("saved");
    if (saving.target) location.href = saving.target;
  } else if (kept && [404, 409].includes(kept.status)) {
    saving.busy = false;
    location.reload();
  } else {
    say("failed");
    saving.wanted ??= body;
    setTimeout(send, 1500);
  }
}

// Leave for another page as soon as everything is kept.
function leave(link) {
  if (!link.hasAttribute("href")) return;
  if (saving.busy) saving.target = link.href;
  else location.href = link.href;
}

for (const id of ["back", "next"]) byId(id).addEventListener("click", (event) => { event.preventDefault(); leave(byId(id)); });
addEventListener("beforeunload", (event) => { if (saving.busy) event.preventDefault(); });
