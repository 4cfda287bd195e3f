// A page of one class, sorted by confidence; one key accepts it, but for excluded examples.
import { byId, count, el, image, named, percent, previewed, request, shownLabel } from "./parts.js";

const CELLS = 60;

export class Grid {
  constructor(page) {
    this.page = page;
    this.rows = [];
    this.start = 0;
    this.out = new Set();
    this.at = 0;
    byId("accept-page").addEventListener("click", () => this.accept());
    byId("next-page").addEventListener("click", () => this.turn(1));
    byId("next-class").addEventListener("click", () => this.nextClass());
    byId("back-page").addEventListener("click", () => page.undoLast());
  }

  /** Begin with the class that is filtered for, or the one with most labels. */
  async begin() {
    const { facts } = this.page;
    if (facts.task !== "regression" && this.page.filter.label === null) {
      this.page.filter.label = facts.counts.indexOf(Math.max(...facts.counts));
      this.page.drawFilter();
    }
    this.start = 0;
    await this.load();
  }

  async load() {
    const found = await request(`api/queue?${this.page.query({ start: this.start, count: CELLS, previews: 1 })}`);
    if (!found.rows.length && this.start > 0) { this.start = 0; await this.load(); return; }
    this.rows = found.rows.map(([row, id, label, confidence, preview]) => ({ row, id, label, confidence, preview }));
    this.total = found.total;
    this.out.clear();
    this.at = 0;
    this.draw();
  }

  draw() {
    const { facts, filter } = this.page;
    const label = filter.label === null ? "all values" : facts.classes[filter.label];
    byId("grid-class").textContent = label;
    const last = Math.min(this.start + this.rows.length, this.total);
    byId("grid-count").textContent = this.total ? `${count(this.start + 1)} to ${count(last)} of ${count(this.total)} open` : "none open";
    const images = this.rows.some((one) => one.preview === null);
    byId("sheet").className = images ? "images" : "texts";
    byId("sheet").replaceChildren(...this.rows.map((one, place) => el(
      "li", {},
      el("button", { type: "button", "data-place": place, title: one.id, "aria-pressed": "true", tabindex: "-1", onclick: () => this.toggle(place) },
        one.preview === null ? image(one.row, 192, one.id) : previewed(one.preview),
        el("span", { class: "cell-label" }, named(filter.label === null ? shownLabel(one.label) : one.id), el("span", { class: "figure" }, percent(one.confidence)))),
    )));
    byId("nothing").hidden = this.rows.length > 0;
    byId("nothing").textContent = "Every example of this class is annotated.";
    this.mark(0, false);
  }

  mark(place, scroll = true) {
    this.at = place;
    for (const cell of byId("sheet").querySelectorAll("button")) {
      const own = Number(cell.dataset.place);
      cell.classList.toggle("marked", own === place);
      cell.setAttribute("aria-pressed", String(!this.out.has(own)));
      if (own === place && scroll) cell.scrollIntoView({ block: "nearest" });
    }
    const taken = this.rows.length - this.out.size;
    byId("accept-page").disabled = taken === 0;
    byId("accept-page").replaceChildren(`Accept ${taken} `, el("kbd", {}, "Enter"));
  }

  toggle(place) {
    if (this.out.has(place)) this.out.delete(place);
    else this.out.add(place);
    this.mark(place);
  }

  async accept() {
    const { rows } = this;
    const taken = rows.filter((_, place) => !this.out.has(place));
    if (!taken.length) return;
    await this.page.doing(async () => {
      if (this.rows !== rows) return; // a second click is not for the next page
      const left = this.rows.filter((_, place) => this.out.has(place)).map((one) => one.row);
      await this.page.annotate(taken.map(({ row, label }) => ({ row, label, seen: 0 })), "page");
      if (left.length) {
        this.page.one.first.push(...left);
        this.start += left.length; // they stay open
        this.page.say(`${left.length === 1 ? "The excluded example comes" : `The ${left.length} excluded examples come`} next, one by one (g).`);
      }
      await this.load();
      window.scrollTo({ top: 0 });
    });
  }

  turn(step) {
    const to = this.start + step * CELLS;
    if (to >= this.total || (to < 0 && this.start === 0)) return;
    this.start = Math.max(0, to);
    this.page.doing(async () => { await this.load(); window.scrollTo({ top: 0 }); });
  }

  nextClass() {
    const many = this.page.facts.classes.length;
    if (!many) return;
    this.page.filter.label = ((this.page.filter.label ?? -1) + 1) % many;
    this.page.drawFilter();
    this.start = 0;
    this.page.doing(() => this.load());
  }

  columns() {
    const cells = [...byId("sheet").children];
    const top = cells[0]?.offsetTop;
    return Math.max(1, cells.findIndex((cell) => cell.offsetTop !== top) === -1 ? cells.length : cells.findIndex((cell) => cell.offsetTop !== top));
  }

  key(key) {
    if (key === "Enter") { this.accept(); return true; }
    if (key === "x") { if (this.rows.length) this.toggle(this.at); return true; }
    if (key === "n" || key === "PageDown" || key === " ") { this.turn(1); return true; }
    if (key === "p" || key === "PageUp") { this.turn(-1); return true; }
    if (key === "c") { this.nextClass(); return true; }
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: this.columns(), ArrowUp: -this.columns() }[key];
    if (step && this.rows.length) {
      const to = this.at + step;
      if (to >= 0 && to < this.rows.length) this.mark(to);
      return true;
    }
    return false;
  }
}
