// One example at a time: its view, the predictions, and the annotation.
import { LONG, bar, byId, count, el, image, named, percent, previewed, request, shownLabel } from "./parts.js";
import { pick } from "./picker.js";

const FEW = 12; // classes that are all shown
const AT_ONCE = 100; // rows that are fetched

export class One {
  constructor(page) {
    this.page = page;
    this.rows = [];
    this.at = 0;
    this.skipped = 0;
    this.first = []; // to be shown before the queue: what was excluded in the grid
    this.shown = null;
    this.options = [];
    this.marked = -1;
    this.ahead = new Map();
    this.recent = [];
    byId("accept").addEventListener("click", () => this.accept());
    byId("skip").addEventListener("click", () => this.skip());
    byId("back").addEventListener("click", () => page.undoLast());
    const value = byId("value-input");
    value.addEventListener("keydown", (event) => {
      if (event.key === "Enter") { event.preventDefault(); this.accept(); }
      if (event.key === "Escape") value.blur();
    });
  }

  get blind() { return this.page.mode === "audit"; }

  /** Start the queue again. */
  async begin() {
    this.rows = [];
    this.at = 0;
    this.skipped = 0;
    this.ahead.clear();
    await this.next();
  }

  /** Show the next example, or say that there is none. */
  async next() {
    if (this.first.length && !this.blind) return this.show(this.first.shift());
    if (this.at >= this.rows.length && this.blind) {
      this.rows = (await request("api/draw", {})).rows; // those of an earlier draw, if some are open
      this.at = 0;
    } else if (this.at >= this.rows.length) {
      const found = await request(`api/queue?${this.page.query({ start: this.skipped, count: AT_ONCE })}`);
      this.rows = found.rows.map(([row]) => row);
      this.at = 0;
    }
    if (!this.rows.length) return this.nothing();
    return this.show(this.rows[this.at++]);
  }

  nothing() {
    this.shown = null;
    byId("one").hidden = true;
    byId("nothing").hidden = false;
    byId("nothing").textContent = this.skipped
      ? "Only skipped examples are left: change the order, or reload the page to see them again."
      : "No example matches. Try another class or order.";
  }

  fetched(row) {
    if (!this.ahead.has(row)) {
      this.ahead.set(row, request(`api/example/${row}${this.blind ? "?blind=1" : ""}`));
    }
    return this.ahead.get(row);
  }

  async show(row) {
    const found = await this.fetched(row).finally(() => this.ahead.delete(row));
    this.shown = found;
    byId("one").hidden = false;
    byId("nothing").hidden = true;
    this.drawView(found);
    this.drawOptions(found);
    this.drawSummary(found);
    this.drawBaseModels(found);
    this.drawNear(found);
    const following = this.rows[this.at];
    if (following !== undefined) {
      this.fetched(following).then((one) => { if (one.image) new Image().src = `image/${following}/1024`; }).catch(() => this.ahead.delete(following));
    }
  }

  drawView(one) {
    const texts = one.text ? [one.text] : one.cells.map(([, cell]) => cell).filter((cell) => cell.length > LONG);
    const content = one.image ? [image(one.row, 1024, one.id)] : texts.map((text) => el("p", { class: "prose", dir: "auto" }, text));
    byId("view").replaceChildren(...content);
    byId("view").hidden = !content.length;
    byId("example-id").replaceChildren(`${this.page.facts.id_name} `, named(one.id));
    const short = one.cells.filter(([, cell]) => cell.length <= LONG);
    byId("cells").replaceChildren(...short.map(([column, cell]) => el("div", {}, el("span", {}, named(column)), el("b", {}, named(cell || "–")))));
  }

  /** The classes with keys: all where they are few, else the candidates of this example. */
  drawOptions(one) {
    const { classes, task } = this.page.facts;
    const value = task === "regression";
    byId("value").hidden = !value;
    byId("options").hidden = value;
    this.original = one.annotation ? one.annotation.label : one.given ?? one.label ?? null;
    if (value) {
      byId("value-input").value = this.original === null ? "" : String(Number(this.original.toPrecision(7)));
      return;
    }
    const confidence = new Map((one.candidates ?? []).map(([label, part]) => [label, part]));
    if (one.label && !confidence.has(one.label)) confidence.set(one.label, one.confidence);
    let names = classes;
    if (classes.length > FEW) {
      names = [...new Set([...(this.original ? [this.original] : []), ...confidence.keys(), ...this.recent])].slice(0, 9);
    }
    const digits = names === classes && classes.every((name) => /^[0-9]$/.test(name));
    this.options = names.map((label, place) => ({ label, key: digits ? label : place < 9 ? String(place + 1) : "", part: confidence.get(label) ?? null }));
    this.marked = this.options.findIndex((option) => option.label === this.original);
    const items = this.options.map((option, place) => el(
      "button", { type: "button", role: "option", "data-place": place, onclick: () => this.take(one.row, option.label) },
      el("kbd", {}, option.key || " "), named(option.label),
      ...(one.blind ? [] : [bar(option.part), el("span", { class: "figure" }, percent(option.part))]),
    ));
    if (classes.length > FEW) {
      items.push(el("button", { type: "button", class: "other-class", onclick: () => this.find() }, el("kbd", {}, "c"), `one of ${count(classes.length)} classes …`));
    }
    byId("options").replaceChildren(...items);
    byId("options").classList.toggle("two", this.options.length > 5);
    this.mark(this.marked);
  }

  mark(place) {
    this.marked = place;
    for (const item of byId("options").querySelectorAll("[data-place]")) {
      item.setAttribute("aria-selected", String(Number(item.dataset.place) === place));
    }
    this.drawAccept();
  }

  drawAccept() {
    const value = this.page.facts.task === "regression";
    const label = value ? this.original : this.options[this.marked]?.label;
    const open = label === undefined || label === null;
    byId("accept").disabled = open && !value;
    byId("accept").replaceChildren("Accept ", ...(open || value ? [] : [named(label), " "]), el("kbd", {}, "Enter"));
  }

  drawSummary(one) {
    const lines = [];
    if (one.blind) {
      lines.push(el("p", { class: "what" }, "Audit"), el("p", { class: "label" }, "What is it?"), el("p", { class: "how" }, "Drawn at random. Predictions are hidden, because seeing them would bias you. Audits are not trained on. A skipped example counts as a mistake until it is labeled."));
    } else if (one.annotation) {
      lines.push(el("p", { class: "what" }, one.annotation.by === this.page.me ? "Your annotation" : "Annotated"), el("p", { class: "label" }, named(shownLabel(one.annotation.label))));
      if (one.annotation.shown !== undefined && one.annotation.shown !== null && one.annotation.shown !== one.annotation.label) lines.push(el("p", { class: "how" }, "The label shown was ", named(shownLabel(one.annotation.shown)), "."));
    } else if (one.given !== null && one.given !== undefined) {
      lines.push(el("p", { class: "what" }, "Given label"), el("p", { class: "label" }, named(shownLabel(one.given))));
      if (one.held_out) lines.push(el("p", { class: "how" }, "The ensemble, fitted without it, predicts ", named(shownLabel(one.label)), one.confidence === null ? "." : `, with confidence ${percent(one.confidence)}.`));
    } else {
      lines.push(el("p", { class: "what" }, "Imputed label"), el("p", { class: "label" }, named(shownLabel(one.label)), one.confidence === null ? null : el("span", { class: "figure" }, percent(one.confidence))));
    }
    byId("summary").replaceChildren(...lines);
  }

  drawBaseModels(one) {
    const rows = [...(one.base_models ?? [])];
    if (one.prediction) rows.push(["saved model", ...one.prediction]);
    const value = this.page.facts.task === "regression";
    const other = (label) => !value && label !== one.label;
    const items = rows.map(([name, label, part]) => el(
      "tr", {}, el("th", { scope: "row" }, named(name)),
      el("td", { class: other(label) ? "other" : "" }, named(shownLabel(label))),
      value ? el("td", { class: "figure" }, part === null ? "" : `± ${shownLabel(part)}`) : el("td", { class: "figure" }, percent(part)),
    ));
    if (one.neighbours && one.neighbours[0] !== null) {
      const [label, apart] = one.neighbours;
      items.push(el("tr", {}, el("th", { scope: "row" }, "nearest labeled"), el("td", { class: other(label) ? "other" : "" }, named(shownLabel(label))), el("td", { class: "figure" }, value ? "" : percent(label === one.label ? 1 - apart : apart))));
    }
    byId("base-models").replaceChildren(...(items.length ? [el("table", {}, el("caption", {}, "Predictions"), el("tbody", {}, ...items))] : []));
  }

  drawNear(one) {
    const near = one.near ?? [];
    const items = near.map(([row, name, label, preview]) => el(
      "li", { title: name }, el("button", { type: "button", onclick: () => this.page.edit(row) }, one.image ? image(row, 192, name) : el("span", { class: "how" }, `${this.page.facts.id_name} `, named(name)), el("span", { class: "near-label" }, named(shownLabel(label))), preview ? previewed(preview) : null),
    ));
    byId("near").replaceChildren(...(items.length ? [el("h2", {}, "Nearest labeled examples"), el("ul", { class: one.image ? "images" : "names" }, ...items)] : []));
  }

  /** Label the example that was shown when somebody chose; a second click is not for the next one. */
  take(row, label) { return this.page.doing(async () => { if (this.shown?.row === row) await this.choose(label); }); }

  async choose(label) {
    if (!this.shown) return;
    const { row, seen } = this.shown;
    const how = this.blind || this.shown.annotation?.how === "audit" ? "audit" : label === this.original ? "accept" : "choose";
    const { conflicts } = await this.page.annotate([{ row, label, seen }], how);
    if (conflicts.length) return;
    this.recent = [label, ...this.recent.filter((name) => name !== label)].slice(0, 9);
    await this.next();
  }

  async accept() {
    if (!this.shown) return;
    if (this.page.facts.task !== "regression") {
      const option = this.options[this.marked];
      if (option) await this.take(this.shown.row, option.label);
      return;
    }
    const text = byId("value-input").value.trim();
    const value = text === "" ? NaN : Number(text.replace(",", "."));
    if (!Number.isFinite(value)) { this.page.say("A value must be a number."); return; }
    byId("value-input").blur();
    await this.take(this.shown.row, value);
  }

  async skip() {
    if (this.shown) this.skipped += 1;
    await this.page.doing(() => this.next());
  }

  find() {
    const { row } = this.shown ?? {};
    pick(this.page.facts.classes, (label) => this.take(row, label));
  }

  /** What a key does here; true if it does something. */
  key(key) {
    const classes = this.page.facts.task !== "regression";
    const byKey = classes && this.options.find((option) => option.key === key);
    if (byKey) { this.take(this.shown?.row, byKey.label); return true; }
    if (!classes && /^[-0-9.,]$/.test(key)) {
      const value = byId("value-input");
      value.value = document.activeElement === value ? value.value + key : key;
      value.focus();
      return true;
    }
    if (key === "Enter") { this.accept(); return true; }
    if (key === " ") { this.skip(); return true; }
    if (key === "c" && classes) { this.find(); return true; }
    const step = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[key];
    if (step && classes && this.options.length) {
      const many = this.options.length;
      this.mark(this.marked < 0 ? (step > 0 ? 0 : many - 1) : (this.marked + step + many) % many);
      return true;
    }
    return false;
  }
}
