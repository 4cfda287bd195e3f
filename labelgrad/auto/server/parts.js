// What every part of the page needs. Names from the data only ever become text.

export const LONG = 90; // characters of a cell that is read as a text
export const byId = (id) => document.getElementById(id);

/** An element with attributes and children; a child that is no element becomes text. */
export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/** A name from the data; its writing direction does not affect what is around it. */
export const named = (text) => el("bdi", {}, String(text));

export function shownLabel(label) {
  if (label === null || label === undefined) return "–";
  return typeof label === "number" ? String(Number(label.toPrecision(4))) : label;
}

/** The first cells of a row, or the beginning of a text. */
export const previewed = (preview) => el("span", { class: "row", dir: "auto" }, ...preview.map(([column, cell]) => (cell.length > LONG ? el("span", { class: "long" }, named(cell)) : el("span", {}, column ? el("small", {}, named(column)) : null, named(cell || "–")))));

/** Whole percent; only what is certain is 100 %. */
export function percent(part) {
  if (part === null || part === undefined) return "";
  if (part >= 0.995 && part < 1) return ">99 %";
  if (part > 0 && part < 0.005) return "<1 %";
  return `${Math.round(100 * part)} %`;
}

export const tenths = (part) => `${(100 * part).toFixed(1).replace(/\.0$/, "")} %`;
export const count = (number) => number.toLocaleString("en");

/** A bar of a share of its room. */
export function bar(part, style = "") {
  const room = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  room.setAttribute("viewBox", "0 0 100 6");
  room.setAttribute("preserveAspectRatio", "none");
  room.setAttribute("class", `share ${style}`);
  room.setAttribute("aria-hidden", "true");
  const filled = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  filled.setAttribute("width", String(Math.max(0, Math.min(100, 100 * (part ?? 0)))));
  filled.setAttribute("height", "6");
  room.append(filled);
  return room;
}

/** The image of an example; one of few pixels keeps them as squares. */
export function image(row, side, name) {
  const shown = el("img", { src: `image/${row}/${side}`, alt: name, decoding: "async" });
  if (side < 1000) shown.loading = "lazy";
  shown.addEventListener("load", () => {
    if (Math.max(shown.naturalWidth, shown.naturalHeight) < 64) shown.classList.add("pixels");
  });
  return shown;
}

export class Unreachable extends Error {}

/** Send a request; a refusal becomes an Error with its sentence. */
export async function request(path, sent) {
  let answer;
  try {
    answer = await fetch(path, sent === undefined ? {} : {
      method: "POST", body: JSON.stringify(sent), headers: { "content-type": "application/json" },
    });
  } catch {
    throw new Unreachable("The server does not answer. Every annotation is saved: start labelgrad review again, and open the address it prints.");
  }
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.error);
  return found;
}
