const words = [...document.querySelectorAll("#words span")];
const marked = words.map(() => false);
let here = 0, brush = null, asked = false, isDone = byId("given").dataset.done === "true";

for (const [start, end] of JSON.parse(byId("given").textContent)) marked.fill(true, start, end);

function show() {
  words.forEach((word, i) => {
    word.setAttribute("aria-selected", marked[i]);
    word.classList.toggle("here", i === here);
    const space = word.nextElementSibling;
    if (space?.tagName === "I") space.classList.toggle("within", marked[i] && Boolean(marked[i + 1]));
  });
  byId("words").setAttribute("aria-activedescendant", `w${here}`);
  byId("count").textContent = marked.filter(Boolean).length;
  words[here].scrollIntoView({ block: "nearest" });
}

function spans() {
  const found = [];
  marked.forEach((mark, i) => {
    if (mark && marked[i - 1]) found.at(-1)[1] = i + 1;
    else if (mark) found.push([i, i + 1]);
  });
  return found;
}

function keep() {
  asked = false;
  save({ rationale: spans(), is_done: isDone });
}

function set(index, mark) {
  here = index;
  if (marked[index] !== mark) {
    marked[index] = mark;
    if (!brush) keep();  // a stroke of the mouse is kept when it ends
  }
  show();
}

function line(step) {
  here = lineStep(words, here, step);
  show();
}

function clear() {
  marked.fill(false);
  keep();
  show();
}

function finish() {
  if (!marked.includes(true) && !asked) {
    asked = true;
    say(EMPTY);
    return;
  }
  isDone = true;
  keep();
  leave(byId("next"));
}

function step(by, isMarking) {
  const to = Math.min(Math.max(here + by, 0), words.length - 1);
  if (isMarking) set(here, true);
  if (isMarking) set(to, true);
  here = to;
  show();
}

const keys = {
  ArrowLeft: (event) => step(-1, event.shiftKey), ArrowRight: (event) => step(1, event.shiftKey),
  ArrowUp: () => line(-1), ArrowDown: () => line(1), " ": () => set(here, !marked[here]),
  c: clear, C: clear, Enter: finish, PageUp: () => leave(byId("back")), PageDown: () => leave(byId("next")),
  Home: () => step(-words.length, false), End: () => step(words.length, false),
};
addEventListener("keydown", (event) => {
  const isControl = ["A", "BUTTON"].includes(document.activeElement?.tagName) && ["Enter", " "].includes(event.key);
  if (event.ctrlKey || event.altKey || event.metaKey || isControl || !keys[event.key]) return;
  event.preventDefault();
  keys[event.key](event);
});
byId("words").addEventListener("pointerdown", (event) => {
  const index = words.indexOf(event.target);
  if (index < 0 || event.button) return;
  brush = { from: index, mark: !marked[index], before: [...marked] };
  set(index, brush.mark);
});
byId("words").addEventListener("pointermove", (event) => {
  const index = brush && event.buttons ? words.indexOf(document.elementFromPoint(event.clientX, event.clientY)) : -1;
  if (index < 0) return;
  const [low, high] = [Math.min(index, brush.from), Math.max(index, brush.from)];
  words.forEach((_, i) => { marked[i] = i >= low && i <= high ? brush.mark : brush.before[i]; });
  here = index;
  show();
});
addEventListener("pointerup", () => {
  if (brush) keep();
  brush = null;
});
for (const [id, action] of [["finish", finish], ["clear", clear]]) byId(id).addEventListener("click", action);
byId("words").focus();
show();
