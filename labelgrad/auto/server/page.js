// The review page: one example or a grid, counters, last annotations, retraining.
import { Unreachable, byId, count, el, image, named, percent, request, shownLabel, tenths } from "./parts.js";
import { Grid } from "./grid.js";
import { One } from "./one.js";
import { pick } from "./picker.js";

const CALM = 2500; // milliseconds between two requests for what others annotated
const BUSY = 700; // while a training runs
const KEYS = /^([-0-9.,/?agcnpx ]|Enter|Backspace|Arrow.*|Page.*)$/; // that do something here

class Page {
  constructor() {
    this.me = sessionStorage.getItem("me") ?? [...crypto.getRandomValues(new Uint8Array(4))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
    sessionStorage.setItem("me", this.me); // a reload is the same person
    this.mode = location.hash === "#audit" ? "audit" : "one";
    this.filter = { label: null };
    this.history = []; // annotations of this page, the newest last: pairs of row and line
    this.working = false;
    this.waiting = []; // keys and clicks that came while something was done, in their order
    this.one = new One(this);
    this.grid = new Grid(this);
  }

  async start() {
    this.facts = await request("api/run");
    this.drawFacts();
    this.drawState(await request("api/state"));
    await this.enter(this.mode);
    this.watch();
  }

  // Queries

  query(more) {
    const [low, high] = byId("confidence").value.split(" ");
    const asked = { order: byId("order").value, low, high, search: byId("search").value.trim(), ...more };
    if (this.filter.label !== null) asked.label = this.filter.label;
    return new URLSearchParams(asked);
  }

  async enter(mode) {
    if ((mode === "grid") !== (this.mode === "grid")) { // each has an order of its own
      const other = mode === "grid" ? "confident" : "useful";
      [this.otherOrder, byId("order").value] = [byId("order").value, this.otherOrder ?? other];
      if (mode !== "grid") this.filter.label = null;
      this.drawFilter();
    }
    this.mode = mode;
    document.body.dataset.mode = mode;
    for (const button of document.querySelectorAll("[data-mode]")) {
      if (button !== document.body) button.setAttribute("aria-pressed", String(button.dataset.mode === mode));
    }
    if (mode === "grid") byId("one").hidden = true;
    byId("grid").hidden = mode !== "grid";
    byId("nothing").hidden = true;
    await this.begin();
  }

  begin() { return this.mode === "grid" ? this.grid.begin() : this.one.begin(); }

  /** Do one thing at a time, the others in their order, and show errors, after which nothing waits. */
  async doing(work) {
    if (this.working) { this.waiting.push(() => this.doing(work)); return; }
    this.working = true;
    document.body.classList.add("working");
    try {
      await work();
    } catch (error) {
      this.waiting = [];
      this.say(error.message, true);
    } finally {
      this.working = false;
      document.body.classList.remove("working");
      while (this.waiting.length && !this.working) this.waiting.shift()();
    }
  }

  say(text, wrong = false) {
    const message = byId("message");
    message.hidden = !text;
    message.textContent = text;
    message.classList.toggle("wrong", wrong);
    clearTimeout(this.quiet);
    if (text && !wrong) this.quiet = setTimeout(() => { message.hidden = true; }, 6000);
  }

  // Annotations

  async annotate(annotations, how) {
    const found = await request("api/annotate", { annotations, how, by: this.me });
    if (found.added.length) this.history.push(found.added.map(({ row, line }) => ({ row, seen: line })));
    this.say("");
    this.drawState(found.state);
    if (found.conflicts.length) {
      this.waiting = []; // they were meant for what comes next
      const [row, other] = found.conflicts[0];
      const what = other ? `chose ${shownLabel(other.label)}` : "undid the annotation";
      this.say(found.conflicts.length === 1 ? `Somebody else ${what} meanwhile; check it again.` : `Somebody else annotated ${found.conflicts.length} of them meanwhile; their labels are kept.`, true);
      if (this.mode !== "grid") await this.one.show(row);
    }
    return found;
  }

  /** Undo the last annotation, and show the example again. */
  undoLast() {
    return this.doing(async () => {
      let last = this.history.pop();
      if (!last) {
        const mine = this.state.newest.find((one) => one.by === this.me && one.row !== null);
        if (!mine) { this.say("You have no annotation to undo."); return; }
        last = [{ row: mine.row, seen: mine.line }];
      }
      await this.undo(last);
    });
  }

  async undo(annotations) {
    const found = await request("api/undo", { annotations, by: this.me });
    this.drawState(found.state);
    this.say(annotations.length === 1 ? "Undone." : `${annotations.length} annotations are undone.`);
    if (this.mode === "grid") await this.grid.load();
    else await this.one.show(annotations[0].row);
  }

  // Drawing

  drawFacts() {
    const { facts } = this;
    document.title = `${facts.title} – labelgrad review`;
    byId("title").textContent = facts.title;
    byId("class-part").hidden = byId("confidence-part").hidden = facts.task === "regression";
    byId("expected-part").hidden = byId("guarantee-part").hidden = facts.task === "regression";
    document.querySelector("button[data-mode=audit]").hidden = facts.task === "regression";
    this.drawFilter();
    if (facts.problem) this.say(facts.problem, true);
  }

  drawFilter() {
    const { label } = this.filter;
    byId("class-filter").firstChild.textContent = label === null ? "any" : this.facts.classes[label];
  }

  drawState(state) {
    const fresh = this.state && state.model !== this.facts.model;
    const before = this.state;
    this.state = state;
    byId("annotated").textContent = count(state.annotated);
    byId("annotated-of").textContent = `of ${count(state.annotated + state.open)}${state.changed ? `, ${count(state.changed)} changed` : ""}`;
    if (state.expected_errors !== null) {
      byId("expected").textContent = count(Math.round(state.expected_errors));
      byId("expected-of").textContent = state.open ? `of ${count(state.open)}, ${tenths(state.expected_errors / state.open)}` : "";
    }
    if (state.guarantee) {
      const { audits, gaps, random, discarded, mistakes, bound, max_error_rate, confidence, selected, more } = state.guarantee;
      byId("guarantee-what").textContent = `guaranteed at ${percent(confidence)} confidence`;
      byId("guarantee").textContent = selected ? `${count(selected)} labels` : "no labels yet";
      byId("guarantee-part").title = discarded.join(" ");
      const evidence = [audits ? `${count(audits)} audits` : "", random ? `${count(random)} random labels` : ""].filter(Boolean).join(" and ");
      const found = evidence ? `${evidence}, ${count(mistakes)} mistakes${gaps ? ` (${count(gaps)} skipped)` : ""}: error rate ≤ ${tenths(bound)}` : "no audits";
      byId("guarantee-needs").textContent = selected ? `error rate ≤ ${tenths(max_error_rate)}; ${found}` : `${found}; ${count(more)} more audits for ≤ ${tenths(max_error_rate)}`;
    }
    if (!before || before.revision !== state.revision) this.drawNewest(state.newest);
    this.drawRetraining(state);
    if (fresh) this.renew();
  }

  /** After a training: other labels, another queue. */
  async renew() {
    this.facts = await request("api/run");
    this.history = [];
    this.one.first = [];
    this.drawFacts();
    await this.doing(() => this.begin());
    this.say("Retrained: labels and queue come from the new model.");
  }

  drawNewest(newest) {
    const images = this.one.shown?.image || newest.length === 0;
    byId("newest").replaceChildren(...newest.filter((one) => one.row !== null).map((one) => el(
      "li", {},
      el("button", { type: "button", class: "edit", title: one.id, onclick: () => this.edit(one.row) },
        images ? image(one.row, 96, one.id) : null,
        el("span", { class: "file" }, named(one.id)), el("b", {}, named(shownLabel(one.label))),
        one.shown !== undefined && one.shown !== null && one.shown !== one.label ? el("s", {}, named(shownLabel(one.shown))) : null,
        one.how === "audit" ? el("small", {}, "audit") : one.by !== this.me ? el("small", {}, "other page") : null),
      el("button", { type: "button", class: "undo", "aria-label": `Undo ${one.id}`, title: "Undo", onclick: () => this.doing(() => this.undo([{ row: one.row, seen: one.line }])) }, "×"),
    )));
    if (!newest.length) byId("newest").replaceChildren(el("li", { class: "how" }, "None yet. The last ten are listed here, to be changed or undone."));
  }

  edit(row) {
    return this.doing(async () => {
      if (this.mode === "grid") { this.mode = "one"; document.body.dataset.mode = "one"; byId("grid").hidden = true; byId("one").hidden = false; }
      await this.one.show(row);
      window.scrollTo({ top: 0 });
    });
  }

  drawRetraining({ retraining, new: added }) {
    const running = retraining.state === "running";
    const ready = added > 0;
    byId("retrain").hidden = running;
    byId("retrain").disabled = !ready;
    byId("retrain").replaceChildren(ready ? `Retrain with ${count(added)} new annotation${added === 1 ? "" : "s"}` : "Retrain");
    byId("progress").hidden = !running;
    byId("retrain-what").textContent = running ? `${retraining.stage}: ${count(retraining.done)} of ${count(retraining.total)}. You can go on annotating, for the next training.` : ready ? "Runs in the background." : "There is no new annotation since the last training.";
    if (running) { byId("progress").max = retraining.total; byId("progress").value = retraining.done; }
    const what = JSON.stringify(running ? null : retraining);
    if (what !== this.drawn) { this.drawn = what; this.drawBeforeAfter(retraining); }
  }

  drawBeforeAfter(retraining) {
    const place = byId("before-after");
    if (retraining.state === "failed") { place.replaceChildren(el("p", { class: "wrong" }, retraining.error)); return; }
    if (retraining.state !== "done") { place.replaceChildren(); return; }
    const value = this.facts.task === "regression";
    const error = (part) => (part === null ? "–" : value ? shownLabel(part) : tenths(part));
    const rows = [];
    if (retraining.before.expected_error !== null) rows.push(["expected error", tenths(retraining.before.expected_error), tenths(retraining.after.expected_error)]);
    rows.push(["error", error(retraining.before.error), error(retraining.after.error)]);
    if (retraining.before.loss !== null) rows.push(["loss", retraining.before.loss.toFixed(3), retraining.after.loss.toFixed(3)]);
    place.replaceChildren(
      el("table", {}, el("thead", {}, el("tr", {}, el("td"), el("th", { scope: "col", class: "figure" }, "before"), el("th", { scope: "col", class: "figure" }, "after"))),
        el("tbody", {}, ...rows.map(([name, was, now]) => el("tr", {}, el("th", { scope: "row" }, name), el("td", { class: "figure" }, was), el("td", { class: "figure" }, now))))),
      el("p", { class: "how" }, `${value ? "" : `Expected error: of the ${count(retraining.compared)} labels that both models imputed, by their confidences. `}Error${value ? "" : " and loss"}: of the ensemble, on ${count(retraining.held_out)} labels held out by both. ${count(retraining.changed)} of ${count(retraining.compared)} imputed labels have changed.`),
      ...(retraining.examples.length ? [el("details", {}, el("summary", {}, "Labels that changed"), el("ul", { class: "changed" }, ...retraining.examples.map(([row, was, now]) => el("li", {}, el("button", { type: "button", onclick: () => this.edit(row) }, image(row, 96, ""), named(shownLabel(was)), " → ", el("b", {}, named(shownLabel(now))))))))] : []),
    );
    if (!this.one.shown?.image) for (const shown of place.querySelectorAll("img")) shown.remove();
  }

  // Other pages

  async watch() {
    try {
      if (!document.hidden && !this.working) {
        const state = await request("api/state");
        if (this.gone) { this.gone = false; this.say("The server answers again."); }
        const shown = this.one.shown;
        const other = state.newest.find((one) => shown && one.row === shown.row && one.line > shown.seen && one.by !== this.me);
        this.drawState(state);
        if (other && this.mode === "one") {
          await this.doing(() => this.one.show(shown.row));
          this.say(`Somebody else has just chosen ${shownLabel(other.label)}.`);
        }
      }
    } catch (error) {
      this.gone = error instanceof Unreachable;
      this.say(error.message, true);
    }
    setTimeout(() => this.watch(), this.state?.retraining.state === "running" ? BUSY : CALM);
  }

  // Input

  key(event) {
    if (event.repeat && !event.key.startsWith("Arrow")) return; // a key that is held down is one decision
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    const { key, target } = event;
    if (target.matches("input, select, textarea")) return;
    if (target.matches("button, a, summary") && (key === "Enter" || key === " ")) return; // its own
    if (this.working && KEYS.test(key)) {
      event.preventDefault();
      this.waiting.push(() => this.act(key));
    } else if (this.act(key)) event.preventDefault();
  }

  /** What a key does to what is shown now; true if it does something. */
  act(key) {
    if (document.querySelector("dialog[open]")) return true;
    const mine = {
      "/": () => byId("search").select(),
      g: () => this.doing(() => this.enter(this.mode === "grid" ? "one" : "grid")),
      a: () => this.facts.task !== "regression" && this.doing(() => this.enter(this.mode === "audit" ? "one" : "audit")),
      "?": () => byId("help").showModal(),
      Backspace: () => this.undoLast(),
    }[key];
    if (mine) { mine(); return true; }
    return (this.mode === "grid" ? this.grid : this.one).key(key);
  }

  listen() {
    document.addEventListener("keydown", (event) => this.key(event));
    // A button pressed by the mouse gives the keyboard back to the page.
    document.addEventListener("click", (event) => { if (event.detail > 0) event.target.closest("button")?.blur(); });
    for (const button of document.querySelectorAll("button[data-mode]")) button.addEventListener("click", () => this.doing(() => this.enter(button.dataset.mode)));
    for (const id of ["order", "confidence"]) byId(id).addEventListener("change", (event) => { event.target.blur(); this.doing(() => this.begin()); });
    byId("class-filter").addEventListener("click", () => pick(this.facts.classes, (name) => {
      this.filter.label = name === null ? null : this.facts.classes.indexOf(name);
      this.drawFilter();
      this.doing(() => this.begin());
    }, { any: this.mode !== "grid" }));
    const search = byId("search");
    search.addEventListener("keydown", (event) => {
      if (event.key === "Escape") search.value = "";
      if (event.key === "Enter" || event.key === "Escape") { search.blur(); this.doing(() => this.begin()); }
    });
    byId("retrain").addEventListener("click", () => this.doing(async () => this.drawState((await request("api/retrain", {})).state)));
    byId("help-button").addEventListener("click", () => byId("help").showModal());
    byId("help").addEventListener("click", (event) => { if (event.target === byId("help")) byId("help").close(); });
  }
}

const page = new Page();
page.listen();
page.start().catch((error) => page.say(error.message, true));
