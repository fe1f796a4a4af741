"use strict";
const byId = (id) => document.getElementById(id);
const state = byId("state");
const base = location.pathname.replace(/[^/]*$/, "");
const windowId = [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
const saving = { wanted: null, isBusy: false, hasEntered: false, isLeaving: false, target: null };
const channel = new BroadcastChannel(base);  // to the other windows of this browser

function say(name) {
  state.textContent = state.dataset[name] || name;
  state.className = name === "saved" || name === "saving" ? "" : "bad";
}

async function ask(method, content) {
  try {
    const headers = { "Content-Type": "application/json", "X-Window": windowId };
    const reply = await fetch(location.pathname, { method, body: content, headers });
    return { status: reply.status, data: reply.ok ? await reply.json() : null };
  } catch {
    return { status: 0 };
  }
}

// Of all windows, only the one that entered last may save. The next page in this window may follow this one.
async function enter() {
  const before = JSON.parse(sessionStorage.getItem(base) ?? "[]").slice(-20);
  const entering = { window: windowId, before, insist: sessionStorage.getItem(`${base}insist`) !== null };
  if (before.at(-1) !== windowId) sessionStorage.setItem(base, JSON.stringify([...before, windowId]));
  let reply = await ask("POST", JSON.stringify(entering));
  const last = localStorage.getItem(base);
  if (reply.status === 409 && last !== null && !(await isOpen(last))) {
    reply = await ask("POST", JSON.stringify({ ...entering, before: [last] }));
  }
  if (reply.status !== 200) return reply;
  sessionStorage.removeItem(`${base}insist`);
  localStorage.setItem(base, windowId);
  channel.postMessage({ entered: windowId });
  if (reply.data.version !== byId("top").dataset.version) return { status: 404 };  // an older answer is shown
  saving.hasEntered = true;
  return reply;
}

// Whether a window of this browser still has that page: one that crashed or was closed does not answer.
function isOpen(page) {
  return new Promise((resolve) => {
    const asking = new BroadcastChannel(base);
    const answer = (found) => { asking.close(); resolve(found); };
    asking.onmessage = ({ data }) => { if (data.here === page) answer(true); };
    asking.postMessage({ wanted: page });
    setTimeout(answer, 500, false);
  });
}

channel.onmessage = ({ data }) => {
  if (data.wanted === windowId) channel.postMessage({ here: windowId });
  if (data.entered && saving.hasEntered) goElsewhere();
};

// One request at a time, the newest content last; what fails is tried again until it is kept.
async function work() {
  if (saving.isBusy) return;
  saving.isBusy = true;
  let isFailing = false;
  while (!saving.isLeaving && !(saving.hasEntered && saving.wanted === null)) {
    const body = saving.wanted;
    if (body !== null && !isFailing) say("saving");
    const isSave = saving.hasEntered;
    const reply = isSave ? await ask("PUT", body) : await enter();
    isFailing = ![200, 404, 409].includes(reply.status);
    if (isFailing) {
      if (saving.wanted !== null) say({ 0: "away", 502: "away", 504: "away", 507: "full" }[reply.status] ?? "busy");
      await new Promise((resolve) => setTimeout(resolve, 1500));
    } else if (reply.status === 404) {
      go(() => location.reload());
    } else if (reply.status === 409) {
      goElsewhere();
    } else if (isSave) {
      if (saving.wanted === body) saving.wanted = null;
      byId("done").textContent = reply.data.num_done;
      byId("progress").value = reply.data.num_done;
      if (saving.wanted === null) say("saved");
    }
  }
  saving.isBusy = false;
  if (saving.target && !saving.isLeaving) location.href = saving.target;
}

function save(content) {
  saving.wanted = JSON.stringify(content);
  work();
}

function go(action) {
  if (saving.isLeaving) return;
  saving.isLeaving = true;
  action();
}

function goElsewhere() {
  go(() => location.replace(`elsewhere#${location.pathname.slice(base.length)}`));
}

// Leave for another page as soon as everything is kept.
function leave(link) {
  if (!link.hasAttribute("href")) return;
  if (saving.isBusy) saving.target = link.href;
  else location.href = link.href;
}

for (const id of ["back", "next"]) byId(id).addEventListener("click", (event) => { event.preventDefault(); leave(byId(id)); });
addEventListener("beforeunload", (event) => { if (saving.wanted !== null && !saving.isLeaving) event.preventDefault(); });
addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });
work();
