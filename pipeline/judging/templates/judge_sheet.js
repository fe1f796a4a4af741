const fields = [...document.querySelectorAll("fieldset")];
const scores = Object.fromEntries(fields.map((field) => [field.dataset.scale, field.dataset.score === "" ? null : Number(field.dataset.score)]));
let now = Math.max(0, fields.findIndex((field) => scores[field.dataset.scale] === null));
let last = null, isTenths = false;

function show() {
  fields.forEach((field, i) => {
    const score = scores[field.dataset.scale];
    field.classList.toggle("now", i === now);
    field.querySelector("output").textContent = score === null ? "" : score;
    for (const input of field.querySelectorAll("input")) input.checked = Number(input.value) === Math.floor(score ?? 0);
  });
}

function give(index, score) {
  scores[fields[index].dataset.scale] = score;
  last = index;
  now = Math.min(index + 1, fields.length - 1);
  show();
  save(scores);
}

function tenths(digit) {
  const whole = Math.floor(scores[fields[last].dataset.scale]);
  if (whole < 5 || digit === 0) give(last, whole + digit / 10);
}

function forward() {
  const open = fields.findIndex((field) => scores[field.dataset.scale] === null);
  if (open < 0) return leave(byId("next"));
  now = open;
  show();
  say("missing");
}

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  const digit = /^[0-9]$/.test(event.key) ? Number(event.key) : null;
  const isLink = document.activeElement?.tagName === "A";
  if (isTenths && digit !== null) tenths(digit);
  else if (digit >= 1 && digit <= 5) give(now, digit);
  else if ((event.key === "." || event.key === ",") && last !== null) { isTenths = true; return; }
  else if (event.key === "ArrowDown") { now = Math.min(now + 1, fields.length - 1); show(); }
  else if (event.key === "ArrowUp") { now = Math.max(now - 1, 0); show(); }
  else if ((event.key === "Enter" && !isLink) || event.key === "ArrowRight") forward();
  else if (event.key === "ArrowLeft") leave(byId("back"));
  else { if (event.key !== "Shift") isTenths = false; return; }
  isTenths = false;
  event.preventDefault();
});
fields.forEach((field, i) => field.addEventListener("change", (event) => give(i, Number(event.target.value))));
show();
