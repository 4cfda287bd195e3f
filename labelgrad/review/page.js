// The page to work on: one example or a grid, the counters, the last decisions, the training.
import { Gone, ask, byId, count, el, named, percent, picture, shownLabel, tenths } from "./parts.js";
import { Grid } from "./grid.js";
import { One } from "./one.js";
import { pick } from "./picker.js";

const CALM = 2500; // milliseconds between two looks at what others decided
const BUSY = 700; // while a training is under way

class Page {
  constructor() {
    this.me = sessionStorage.getItem("me") ?? [...crypto.getRandomValues(new Uint8Array(4))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
    sessionStorage.setItem("me", this.me); // a reload is the same person
    this.mode = location.hash === "#audit" ? "audit" : "one";
    this.filter = { label: null };
    this.undo = []; // what was decided here, the newest last: pairs of row and number
    this.working = false;
    this.one = new One(this);
    this.grid = new Grid(this);
  }

  async start() {
    this.facts = await ask("api/run");
    this.drawFacts();
    this.drawState(await ask("api/state"));
    await this.enter(this.mode);
    this.watch();
  }

  // What is asked for

  query(more) {
    const [low, high] = byId("sure").value.split(" ");
    const asked = { order: byId("order").value, low, high, search: byId("search").value.trim(), ...more };
    if (this.filter.label !== null) asked.label = this.filter.label;
    return new URLSearchParams(asked);
  }

  async enter(mode) {
    if ((mode === "grid") !== (this.mode === "grid")) { // each has an order of its own
      const other = mode === "grid" ? "sure" : "useful";
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

  /** Do one thing at a time, and say what goes wrong. */
  async doing(work) {
    if (this.working) return;
    this.working = true;
    document.body.classList.add("working");
    try {
      await work();
    } catch (error) {
      this.say(error.message, true);
    } finally {
      this.working = false;
      document.body.classList.remove("working");
    }
  }

  say(text, wrong = false) {
    const said = byId("said");
    said.hidden = !text;
    said.textContent = text;
    said.classList.toggle("wrong", wrong);
    clearTimeout(this.quiet);
    if (text && !wrong) this.quiet = setTimeout(() => { said.hidden = true; }, 6000);
  }

  // What is decided

  async decide(decisions, how) {
    const found = await ask("api/decide", { decisions, how, by: this.me });
    if (found.taken.length) this.undo.push(found.taken.map(({ row, number }) => ({ row, seen: number })));
    this.say("");
    this.drawState(found.state);
    if (found.others.length) {
      const [row, other] = found.others[0];
      const what = other ? `decided for ${shownLabel(other.label)}` : "took it back";
      this.say(found.others.length === 1 ? `Somebody else ${what} meanwhile; look at it again.` : `Somebody else decided about ${found.others.length} of them meanwhile; those are as they say.`, true);
      if (this.mode !== "grid") await this.one.show(row);
    }
    return found;
  }

  /** Take the last decision back, and look at it again. */
  back() {
    return this.doing(async () => {
      let last = this.undo.pop();
      if (!last) {
        const mine = this.state.newest.find((one) => one.by === this.me && one.row !== null);
        if (!mine) { this.say("You have decided nothing yet that could be taken back."); return; }
        last = [{ row: mine.row, seen: mine.number }];
      }
      await this.takeBack(last);
    });
  }

  async takeBack(entries) {
    const found = await ask("api/take-back", { entries, by: this.me });
    this.drawState(found.state);
    this.say(entries.length === 1 ? "Taken back." : `${entries.length} decisions are taken back.`);
    if (this.mode === "grid") await this.grid.load();
    else await this.one.show(entries[0].row);
  }

  // What is drawn

  drawFacts() {
    const { facts } = this;
    document.title = `${facts.title} – labelgrad review`;
    byId("title").textContent = facts.title;
    byId("class-part").hidden = byId("sure-part").hidden = facts.task === "regression";
    byId("expected-part").hidden = byId("promise-part").hidden = facts.task === "regression";
    document.querySelector("button[data-mode=audit]").hidden = facts.task === "regression";
    this.drawFilter();
    if (facts.problem) this.say(facts.problem, true);
    else if (facts.interrupted) this.say("A training anew was not finished. This is the result before it; Train anew goes on.", true);
  }

  drawFilter() {
    const { label } = this.filter;
    byId("class-filter").firstChild.textContent = label === null ? "any" : this.facts.classes[label];
  }

  drawState(state) {
    const fresh = this.state && state.run !== this.facts.run;
    const before = this.state;
    this.state = state;
    byId("decided").textContent = count(state.decided);
    byId("decided-of").textContent = `of ${count(state.decided + state.open)}${state.changed ? `, ${count(state.changed)} changed` : ""}`;
    if (state.expected_wrong !== null) {
      byId("expected").textContent = count(Math.round(state.expected_wrong));
      byId("expected-of").textContent = state.open ? `of ${count(state.open)}, ${tenths(state.expected_wrong / state.open)}` : "";
    }
    if (state.promise) {
      const { audits, gaps, random, mistakes, bound, at_most, confidence, handed, more } = state.promise;
      byId("promise-what").textContent = `promised at ${percent(confidence)}`;
      byId("promise").textContent = handed ? `${count(handed)} labels` : "nothing yet";
      const judges = [audits ? `${count(audits)} audits` : "", random ? `${count(random)} random labels` : ""].filter(Boolean).join(" and ");
      const found = judges ? `${judges}, ${count(mistakes)} wrong${gaps ? ` (${count(gaps)} skipped)` : ""}: ≤ ${tenths(bound)} of all` : "no audits";
      byId("promise-needs").textContent = handed ? `≤ ${tenths(at_most)} of them wrong; ${found}` : `${found}; ${count(more)} more for ${tenths(at_most)}`;
    }
    if (!before || before.revision !== state.revision) this.drawNewest(state.newest);
    this.drawTraining(state);
    if (fresh) this.renew();
  }

  /** A training has ended: other labels, another queue. */
  async renew() {
    this.facts = await ask("api/run");
    this.undo = [];
    this.one.first = [];
    this.drawFacts();
    await this.doing(() => this.begin());
    this.say("Trained anew: labels and their order are of the new result.");
  }

  drawNewest(newest) {
    const pictures = this.one.shown?.picture || newest.length === 0;
    byId("newest").replaceChildren(...newest.filter((one) => one.row !== null).map((one) => el(
      "li", {},
      el("button", { type: "button", class: "edit", title: one.name, onclick: () => this.edit(one.row) },
        pictures ? picture(one.row, 96, one.name) : null,
        el("span", { class: "file" }, named(one.name)), el("b", {}, named(shownLabel(one.label))),
        one.said !== undefined && one.said !== null && one.said !== one.label ? el("s", {}, named(shownLabel(one.said))) : null,
        one.how === "audit" ? el("small", {}, "audit") : one.by !== this.me ? el("small", {}, "other page") : null),
      el("button", { type: "button", class: "undo", "aria-label": `Take back ${one.name}`, title: "Take back", onclick: () => this.doing(() => this.takeBack([{ row: one.row, seen: one.number }])) }, "×"),
    )));
    if (!newest.length) byId("newest").replaceChildren(el("li", { class: "how" }, "None yet. The last ten stand here, to be changed or taken back."));
  }

  edit(row) {
    return this.doing(async () => {
      if (this.mode === "grid") { this.mode = "one"; document.body.dataset.mode = "one"; byId("grid").hidden = true; byId("one").hidden = false; }
      await this.one.show(row);
      window.scrollTo({ top: 0 });
    });
  }

  drawTraining({ training, new: news }) {
    const running = training.state === "running";
    const ready = news > 0 || this.facts.interrupted;
    byId("train").hidden = running;
    byId("train").disabled = !ready;
    byId("train").replaceChildren(news > 0 ? `Train anew with ${count(news)} new decision${news === 1 ? "" : "s"}` : "Train anew");
    byId("progress").hidden = !running;
    byId("train-what").textContent = running ? `${training.name}: ${count(training.done)} of ${count(training.total)}. You can go on deciding; that will be for the next one.` : ready ? "In the background. The result before is kept." : "Nothing was decided since the last training.";
    if (running) { byId("progress").max = training.total; byId("progress").value = training.done; }
    const what = JSON.stringify(training.state === "running" ? null : training);
    if (what !== this.told) { this.told = what; this.drawBeforeAfter(training); }
  }

  drawBeforeAfter(training) {
    const place = byId("before-after");
    if (training.state === "failed") { place.replaceChildren(el("p", { class: "wrong" }, training.error)); return; }
    if (training.state !== "done") { place.replaceChildren(); return; }
    const value = this.facts.task === "regression";
    const error = (part) => (part === null ? "–" : value ? shownLabel(part) : tenths(part));
    const rows = [];
    if (training.before.expected_wrong !== null) rows.push(["expected wrong", tenths(training.before.expected_wrong), tenths(training.after.expected_wrong)]);
    rows.push(["error", error(training.before.error), error(training.after.error)]);
    if (training.before.loss !== null) rows.push(["loss", training.before.loss.toFixed(3), training.after.loss.toFixed(3)]);
    place.replaceChildren(
      el("table", {}, el("thead", {}, el("tr", {}, el("td"), el("th", { scope: "col", class: "figure" }, "before"), el("th", { scope: "col", class: "figure" }, "after"))),
        el("tbody", {}, ...rows.map(([name, was, now]) => el("tr", {}, el("th", { scope: "row" }, name), el("td", { class: "figure" }, was), el("td", { class: "figure" }, now))))),
      el("p", { class: "how" }, `${value ? "" : `Expected wrong: of the ${count(training.compared)} labels that both have imputed, by their probabilities. `}Error${value ? "" : " and loss"}: of the pool, on the ${count(training.judged)} given labels that it was judged by and had not seen. ${count(training.changed)} of ${count(training.compared)} imputed labels are others now.`),
      ...(training.examples.length ? [el("details", {}, el("summary", {}, "Labels that changed"), el("ul", { class: "changed" }, ...training.examples.map(([row, was, now]) => el("li", {}, el("button", { type: "button", onclick: () => this.edit(row) }, picture(row, 96, ""), named(shownLabel(was)), " → ", el("b", {}, named(shownLabel(now))))))))] : []),
    );
    if (!this.one.shown?.picture) for (const shown of place.querySelectorAll("img")) shown.remove();
  }

  // What happens elsewhere

  async watch() {
    try {
      if (!document.hidden && !this.working) {
        const state = await ask("api/state");
        if (this.gone) { this.gone = false; this.say("The server is back."); }
        const shown = this.one.shown;
        const other = state.newest.find((one) => shown && one.row === shown.row && one.number > shown.seen && one.by !== this.me);
        this.drawState(state);
        if (other && this.mode === "one") {
          await this.doing(() => this.one.show(shown.row));
          this.say(`Somebody else has just decided for ${shownLabel(other.label)}.`);
        }
      }
    } catch (error) {
      this.gone = error instanceof Gone;
      this.say(error.message, true);
    }
    setTimeout(() => this.watch(), this.state?.training.state === "running" ? BUSY : CALM);
  }

  // What a person does

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    const { key, target } = event;
    if (target.matches("input, select, textarea")) return;
    if (target.matches("button, a, summary") && (key === "Enter" || key === " ")) return; // its own
    const mine = {
      "/": () => byId("search").select(),
      g: () => this.doing(() => this.enter(this.mode === "grid" ? "one" : "grid")),
      a: () => this.facts.task !== "regression" && this.doing(() => this.enter(this.mode === "audit" ? "one" : "audit")),
      "?": () => byId("help").showModal(),
      Backspace: () => this.back(),
    }[key];
    if (mine) { event.preventDefault(); mine(); return; }
    if ((this.mode === "grid" ? this.grid : this.one).key(key)) event.preventDefault();
  }

  listen() {
    document.addEventListener("keydown", (event) => this.key(event));
    // A button pressed by the mouse gives the keyboard back to the page.
    document.addEventListener("click", (event) => { if (event.detail > 0) event.target.closest("button")?.blur(); });
    for (const button of document.querySelectorAll("button[data-mode]")) button.addEventListener("click", () => this.doing(() => this.enter(button.dataset.mode)));
    for (const id of ["order", "sure"]) byId(id).addEventListener("change", (event) => { event.target.blur(); this.doing(() => this.begin()); });
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
    byId("train").addEventListener("click", () => this.doing(async () => this.drawState((await ask("api/train", {})).state)));
    byId("help-button").addEventListener("click", () => byId("help").showModal());
    byId("help").addEventListener("click", (event) => { if (event.target === byId("help")) byId("help").close(); });
  }
}

const page = new Page();
page.listen();
page.start().catch((error) => page.say(error.message, true));
