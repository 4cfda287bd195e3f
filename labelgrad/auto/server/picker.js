// A class by a part of its name, out of up to thousands.
import { byId, count, el, named } from "./parts.js";

const MOST = 100; // shown at once
const dialog = byId("picker");
const input = byId("picker-input");
const list = byId("picker-list");
let choices = [];
let shown = [];
let marked = 0;
let chosen = () => {};

/** Choose one of the classes; `any` adds the choice of none. */
export function pick(classes, when, { any = false } = {}) {
  choices = any ? [null, ...classes] : classes;
  chosen = when;
  input.value = "";
  filter();
  dialog.showModal();
}

function filter() {
  const text = input.value.trim().toLowerCase();
  const found = choices.filter((name) => name === null ? !text : name.toLowerCase().includes(text));
  const first = (name) => (name === null || name.toLowerCase().startsWith(text) ? 0 : 1);
  if (text) found.sort((a, b) => first(a) - first(b)); // stable: otherwise in the order of the run
  shown = found.slice(0, MOST);
  marked = 0;
  list.replaceChildren(...shown.map((name, place) => el(
    "li", { role: "option", id: `choice-${place}`, onclick: () => take(name) },
    name === null ? "any class" : named(name),
  )));
  const more = found.length - shown.length;
  byId("picker-more").textContent = more > 0 ? `and ${count(more)} more: type to narrow` : shown.length ? "" : "No class has that in its name; new classes come with labels --corrections --new-classes.";
  mark();
}

function mark() {
  for (const [place, item] of [...list.children].entries()) {
    item.setAttribute("aria-selected", String(place === marked));
    if (place === marked) item.scrollIntoView({ block: "nearest" });
  }
  if (shown.length) input.setAttribute("aria-activedescendant", `choice-${marked}`);
  else input.removeAttribute("aria-activedescendant");
}

function take(name) {
  dialog.close();
  chosen(name);
}

input.addEventListener("input", filter);
input.addEventListener("keydown", (event) => {
  const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10 }[event.key];
  if (step) {
    event.preventDefault();
    marked = Math.max(0, Math.min(shown.length - 1, marked + step));
    mark();
  } else if (event.key === "Enter") {
    event.preventDefault();
    if (shown.length) take(shown[marked]);
  }
});
dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
