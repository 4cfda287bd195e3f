"use strict";
// The gallery's two filters. Without this script everything is shown.
(() => {
  const filters = document.getElementById("filters");
  if (!filters) return;
  const buttons = [...filters.querySelectorAll("button[data-group]")];
  const choice = document.getElementById("label-filter");
  const status = document.getElementById("shown");
  const groups = [...document.querySelectorAll(".group")];
  let group = buttons[0].dataset.group;

  function show() {
    const label = choice ? choice.value : "";
    let shown = 0;
    let all = 0;
    for (const part of groups) {
      let here = 0;
      for (const item of part.querySelectorAll("[data-label]")) {
        const fits = label === "" || item.dataset.label === label;
        item.hidden = !fits;
        here += fits;
        all += 1;
      }
      const open = group === "" || part.dataset.group === group;
      part.hidden = !open || here === 0;
      shown += open ? here : 0;
    }
    status.textContent = shown === 0 ? "None of these fits." : `${shown} of ${all} shown`;
  }

  for (const button of buttons) {
    button.addEventListener("click", () => {
      group = button.dataset.group;
      for (const each of buttons) each.setAttribute("aria-pressed", String(each === button));
      show();
    });
  }
  if (choice) choice.addEventListener("change", show);
  filters.hidden = false;
  show();
})();
