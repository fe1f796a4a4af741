"use strict";
const byId = (id) => document.getElementById(id);
const { say, models, examples, max_text: maxText } = JSON.parse(byId("given").textContent);
const MINUS = "\u2212", MOST_CLASSES = 5, MOST_WORDS = 12;
const fill = (text, values) => text.replace(/\{(\w+)\}/g, (_, name) => values[name]);
const kept = (() => { try { return window.sessionStorage; } catch { return null; } })();

function element(kind, text = "", name = "") {
  const made = document.createElement(kind);
  made.textContent = text;
  made.className = name;
  return made;
}

function tell(text, isBad = false) {
  byId("state").textContent = text;
  byId("state").className = isBad ? "bad" : "";
}

// What the server answers; raises the name of what went wrong.
async function ask(address, content, signal) {
  let answer;
  try {
    answer = await fetch(address, { method: "POST", body: JSON.stringify(content), headers: { "Content-Type": "application/json" }, signal });
  } catch (error) {
    throw error.name === "AbortError" ? error : new Error("away");
  }
  if (answer.ok) return answer.json();
  const { message } = await answer.json().catch(() => ({ message: "failed" }));
  throw new Error(message);
}

const explain = (error) => fill(say[error.message] || say.failed, { limit: maxText.toLocaleString() });

class Column {
  constructor(section, number) {
    this.section = section;
    this.number = number;
    this.model = models[number];
    this.targets = this.model.targets.map((target) => ({ ...target, places: Math.abs(target.high - target.low) > 2 ? 2 : 3 }));
    this.chosen = 0;  // number of the rationale that is shown
    this.answer = this.find(".answer");
    this.group = this.find(".passage");
    this.group.addEventListener("click", (event) => this.press(this.words.indexOf(event.target)));
    this.group.addEventListener("keydown", (event) => this.key(event));
    for (const button of section.querySelectorAll("[data-action]")) {
      button.addEventListener("click", () => this.setAll(button.dataset.action));
    }
    for (const button of this.choices()) {
      button.addEventListener("click", () => this.choose(Number(button.dataset.target)));
    }
  }

  find(selector) { return this.section.querySelector(selector); }

  choices() { return this.section.querySelectorAll("[data-target]"); }

  // The marks of a target: there is one rationale for all of them, or one for each.
  rationaleOf(target) { return this.rationales[this.model.has_own_rationales ? target : 0]; }

  get rationale() { return this.rationales?.[this.chosen]; }
  get own() { return this.rationale?.own; }
  get marked() { return this.rationale?.marked; }

  clear() {
    this.text = null;
    this.answer.hidden = true;
    this.find(".problem").hidden = true;
  }

  fail(text) {
    this.answer.hidden = true;
    this.find(".problem").hidden = false;
    this.find(".problem").textContent = text;
  }

  show(text, found) {
    this.clear();
    if (found.problem) return this.fail(say[found.problem]);
    Object.assign(this, { text, found, here: 0, pending: new Set(), busy: false });
    this.rationales = found.rationales.map(({ p, is_marked: own }) => ({ p, own, marked: [...own] }));
    this.now = [...found.predicted];
    this.before = [...found.predicted];
    this.answer.hidden = false;
    this.drawRationale();
    this.drawOutcome();
  }

  drawRationale() {
    this.choices().forEach((button, i) => button.setAttribute("aria-pressed", i === this.chosen));
    this.write();
    this.drawMarks();
  }

  choose(number) {
    this.chosen = number;
    this.here = 0;
    this.drawRationale();
  }

  write() {
    this.group.replaceChildren(this.found.lead);
    this.words = [];
    this.gaps = [];
    this.found.tokens.forEach((token, i) => {
      const word = element("span", token.text), gap = element("i", token.gap), p = this.rationale.p[i];
      word.setAttribute("role", "button");
      word.title = fill(say[token.is_known ? "word" : "word.unknown"], { p: p.toFixed(3) });
      word.style.setProperty("--p", p);
      word.classList.toggle("unknown", !token.is_known);
      this.words.push(word);
      this.gaps.push(gap);
      this.group.append(word, gap);
    });
    if (this.found.rest) this.group.append(element("span", this.found.rest, "unread"));
    this.group.parentElement.lang = /[\u4e00-\u9fff]/.test(this.text) ? "zh" : "";
  }

  isChanged({ own, marked }) { return marked.some((mark, i) => mark !== own[i]); }

  drawMarks() {
    this.words.forEach((word, i) => {
      word.setAttribute("aria-pressed", this.marked[i]);
      word.tabIndex = i === this.here ? 0 : -1;
      word.classList.toggle("gone", this.own[i] && !this.marked[i]);
      word.classList.toggle("added", !this.own[i] && this.marked[i]);
      this.gaps[i].classList.toggle("within", this.marked[i] && Boolean(this.marked[i + 1]));
    });
    this.find(".count").textContent = fill(say.marked, { marked: this.marked.filter(Boolean).length, total: this.words.length });
    this.drawChanges();
    this.find(".remarks").replaceChildren(...this.remarks().map((text) => element("li", text)));
    compare();
  }

  label({ classes }, { probabilities }) {
    const best = probabilities.indexOf(Math.max(...probabilities));
    return `${classes[best]} (${probabilities[best].toFixed(3)})`;
  }

  inWords(target, predicted) {
    const { name, low, high, places } = target;
    if (predicted.probabilities) {
      const label = this.label(target, predicted);
      return this.targets.length > 1 ? fill(say["class.of"], { target: name, label }) : label;
    }
    return fill(say[low === 0 ? "score" : "score.range"], { subject: name, low, high, score: predicted.score.toFixed(places) });
  }

  signed(value, places) {
    const text = Math.abs(value).toFixed(places);
    return Number(text) === 0 ? `±${text}` : `${value < 0 ? MINUS : "+"}${text}`;
  }

  drawOutcome() {
    this.section.querySelectorAll(".target").forEach((block, i) => this.drawTarget(block, this.targets[i], i));
  }

  drawTarget(block, target, i) {
    const isChanged = this.isChanged(this.rationaleOf(i)), [now, before] = [this.now[i], this.before[i]], { places } = target;
    block.querySelector(".headline b").textContent = this.inWords(target, now);
    block.querySelector(".headline span").textContent = !isChanged ? "" : now.probabilities
      ? fill(say["before.class"], { before: this.label(target, before) })
      : fill(say.before, { before: before.score.toFixed(places), change: this.change(now.score, before.score, places) });
    block.querySelector(".outcome tbody").replaceChildren(...this.rows(target, now, before).map((row) => this.row(row, isChanged)));
  }

  // of the numbers as they are shown, so that a reader can check it
  change(now, before, places) {
    return this.signed(now.toFixed(places) - before.toFixed(places), places);
  }

  rows({ name, low, high, places, classes }, now, before) {
    if (!now.probabilities) return [{ name, now: now.score, before: before.score, low, high, places }];
    const all = classes.map((name, i) => ({ name, now: now.probabilities[i], before: before.probabilities[i], low: 0, high: 1, places: 3 }));
    const top = Math.max(...now.probabilities);
    for (const row of all) row.isTop = row.now === top;
    const most = (row) => Math.max(row.now, row.before);
    const shown = all.length === MOST_CLASSES + 1 ? all.length : MOST_CLASSES;  // "1 other" takes no less room than its name
    const chosen = new Set([...all].sort((a, b) => most(b) - most(a)).slice(0, shown));
    const rows = [...chosen].sort((a, b) => b.before - a.before), rest = all.filter((row) => !chosen.has(row));
    if (rest.length) {
      const sum = (key) => rest.reduce((total, row) => total + row[key], 0);
      rows.push({ name: fill(say.others, { count: rest.length }), now: sum("now"), before: sum("before"), low: 0, high: 1, places: 3 });
    }
    return rows;
  }

  row({ name, now, before, low, high, places, isTop }, isChanged) {
    const share = (value) => `${100 * Math.min(Math.max((value - low) / (high - low), 0), 1)}%`;
    const row = element("tr"), head = element("th", name), bar = element("td"), track = element("span", "", "track");
    const filled = element("span", "", "now"), was = element("span", "", "was");
    head.scope = "row";
    filled.style.width = share(now);
    was.style.left = share(before);
    was.hidden = !isChanged;
    track.append(filled, was);
    bar.append(track);
    row.append(head, bar, element("td", now.toFixed(places), "number"), element("td", isChanged ? this.change(now, before, places) : "", "change"));
    row.classList.toggle("likeliest", Boolean(isTop));
    return row;
  }

  drawChanges() {
    const listed = (keep) => {
      const found = this.found.tokens.filter((_, i) => this.own[i] !== this.marked[i] && this.own[i] === keep).map((token) => token.text);
      const more = found.length > MOST_WORDS ? ` ${fill(say.more, { count: found.length - MOST_WORDS })}` : "";
      return found.length ? found.slice(0, MOST_WORDS).join(" · ") + more : "";
    };
    const [gone, added] = [listed(true), listed(false)];
    const parts = [gone && fill(say.gone, { words: gone }), added && fill(say.added, { words: added })].filter(Boolean);
    this.find(".changes").hidden = !parts.length;
    this.find(".changes").replaceChildren(...parts.map((text) => element("p", text)));
  }

  remarks() {
    const { found, model, targets } = this, total = found.tokens.length, remarks = [];
    const target = targets[this.chosen].name;
    if (targets.length > 1 && !model.has_own_rationales && !model.reads_whole_texts) remarks.push(say.shared);
    if (!this.own.includes(true)) remarks.push(model.has_own_rationales ? fill(say["nothing.of"], { target }) : say.nothing);
    if (found.num_unknown) remarks.push(fill(say.unknown_words, { unknown: found.num_unknown, total }));
    if (found.num_unread) remarks.push(fill(say.cut, { limit: model.max_tokens, unread: found.num_unread }));
    if (model.reads_whole_texts) remarks.push(fill(say.whole, { from_marks: targets.map((one, i) => this.inWords(one, found.from_marks[i])).join(", ") }));
    return remarks;
  }

  press(index) {
    if (index < 0) return;
    this.here = index;
    this.marked[index] = !this.marked[index];
    this.changed();
    this.words[index].focus();
  }

  setAll(action) {
    const how = { own: (i) => this.own[i], all: () => true, none: () => false, invert: (i) => !this.marked[i] }[action];
    this.rationale.marked = this.marked.map((_, i) => how(i));
    this.changed();
  }

  key(event) {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const last = this.words.length - 1, { here } = this;
    const goal = { ArrowLeft: here - 1, ArrowRight: here + 1, Home: 0, End: last }[event.key];
    if (event.key === " " || event.key === "Enter") this.press(here);
    else if (event.key === "ArrowUp" || event.key === "ArrowDown") this.move(lineStep(this.words, here, event.key === "ArrowUp" ? -1 : 1));
    else if (goal !== undefined) this.move(Math.min(Math.max(goal, 0), last));
    else return;
    event.preventDefault();
  }

  move(index) {
    this.words[this.here].tabIndex = -1;
    this.here = index;
    this.words[index].tabIndex = 0;
    this.words[index].focus();
  }

  changed() {
    this.drawMarks();
    this.pending.add(this.rationale);
    if (!this.busy) this.predict();
  }

  // One request at a time, for the newest marks of each rationale that has changed.
  async predict() {
    const { found, text, pending } = this;
    this.busy = true;
    while (pending.size && this.found === found) {
      const [rationale] = pending;
      pending.delete(rationale);
      const marks = rationale.marked.flatMap((mark, i) => (mark ? [i] : []));
      try {
        const isOwn = !this.isChanged(rationale);
        const now = isOwn ? found.predicted : await ask("predict", { model: this.number, text, marks });
        if (this.found !== found) return;
        this.targets.forEach((_, i) => {
          if (this.rationaleOf(i) !== rationale) return;
          this.now[i] = now[i];
          this.before[i] = (isOwn ? found.predicted : found.from_marks)[i];
        });
        tell("");
        if (!pending.size) this.drawOutcome();
      } catch (error) {
        if (this.found !== found) return;
        tell(explain(error), true);
      }
    }
    this.busy = false;
  }
}

const columns = [...document.querySelectorAll(".column")].map((section, i) => new Column(section, i));

// How far two models mark the same characters.
function compare() {
  const shown = columns.filter((column) => column.text !== null && column.marked);
  byId("both").hidden = shown.length < 2;
  if (shown.length < 2) return;
  const [first, second] = shown.map((column) => {
    const places = new Set();
    column.found.tokens.forEach((token, i) => {
      for (let at = token.start; column.marked[i] && at < token.end; at += 1) places.add(at);
    });
    return places;
  });
  const both = [...first].filter((at) => second.has(at)).length, either = first.size + second.size - both;
  byId("both").hidden = either === 0;
  byId("both").textContent = fill(say.both, { share: Math.round(100 * both / either) });
}

let asking = null;

async function read() {
  const text = byId("text").value;
  kept?.setItem("text", text);
  asking?.abort();
  asking = new AbortController();
  const mine = asking;
  if (!text.trim()) {
    for (const column of columns) column.clear();
    byId("both").hidden = byId("legend").hidden = true;
    byId("text").focus();
    return tell(say.empty, true);
  }
  tell(say.reading);
  try {
    const found = await ask("read", { text }, mine.signal);
    columns.forEach((column, i) => column.show(text, found.models[i]));
    byId("legend").hidden = false;
    compare();
    tell(say.ready);
  } catch (error) {
    if (error.name === "AbortError") return;
    for (const column of columns) column.clear();
    byId("both").hidden = byId("legend").hidden = true;
    tell(explain(error), true);
  }
}

byId("ask").addEventListener("submit", (event) => { event.preventDefault(); read(); });
byId("text").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); read(); }
});
for (const button of document.querySelectorAll("[data-example]")) {
  button.addEventListener("click", () => { byId("text").value = examples[button.dataset.example]; read(); });
}
// a text outlives the change of the language
byId("other").addEventListener("click", () => kept?.setItem("text", byId("text").value));
if (kept?.getItem("text") && !byId("text").value) {
  byId("text").value = kept.getItem("text");
  read();
}
