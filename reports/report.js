"use strict";
// What the page does beyond being read: reasons beside the cells of the matrix, arrow keys in it, rows sorted and
// filtered, and all that is folded opened for printing. Without it everything is there, and links lead to it.
(() => {
  const WORST_FIRST = ["failed", "conflict", "inconclusive", "blocked", "not-run", "inapplicable", "verified"];
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const make = (tag, values = {}) => Object.assign(document.createElement(tag), values);

  // Rows

  const isHeading = (row) => row.cells.length === 1 && row.cells[0].scope === "rowgroup";

  /** The things in a table that move and hide as one, in lists between which nothing moves. */
  function unitsOf(table) {
    if (table.classList.contains("records")) return [{ parent: table, heading: null, units: [...table.tBodies] }];
    return [...table.tBodies].map((body) => ({
      parent: body,
      heading: [...body.rows].find(isHeading) || null,
      units: [...body.rows].filter((row) => !isHeading(row)),
    }));
  }

  // Sorting

  const NUMBER = /^[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?/i;

  /** What a cell sorts by: outcomes by how bad they are, numbers before words, and nothing last. */
  function keyOf(unit, column) {
    const row = unit.rows ? unit.rows[0] : unit;
    const cell = row.cells[column];
    const text = cell ? cell.textContent.trim() : "";
    const outcome = cell && row.closest(".matrix") ? WORST_FIRST.indexOf(cell.classList[0]) : -1;
    if (outcome >= 0) return [0, outcome, ""];
    if (!text || text === "–") return [2, 0, ""];
    const number = NUMBER.exec(text);
    return [number ? 0 : 1, number ? Number(number[0]) : 0, text];
  }

  const collator = new Intl.Collator("en", { numeric: true });
  const compare = (a, b) => a[0] - b[0] || a[1] - b[1] || collator.compare(a[2], b[2]);

  /** The header cells that stand over one column each, in the order of the columns. */
  function columnsOf(table) {
    const [first, second] = table.tHead.rows;
    if (!second) return [...first.cells];
    return [...[...first.cells].filter((cell) => cell.rowSpan === 2), ...second.cells];
  }

  function sort(table, groups, column, direction) {
    for (const { parent, units, heading } of groups) {
      const keyed = units.map((unit, place) => ({ unit, place, key: keyOf(unit, column) }));
      if (direction !== "none") {
        const sign = direction === "descending" ? -1 : 1;
        keyed.sort((a, b) => {
          const empty = (a.key[0] === 2) - (b.key[0] === 2);
          return empty || sign * compare(a.key, b.key) || a.place - b.place;
        });
      }
      parent.append(...(heading ? [heading] : []), ...keyed.map((one) => one.unit));
    }
  }

  const NEXT = { none: "ascending", ascending: "descending", descending: "none" };

  function makeSortable(table, groups) {
    const columns = columnsOf(table);
    columns.forEach((header, column) => {
      const button = make("button", { type: "button", className: "sort", title: "Sort by this column" });
      button.append(...header.childNodes);
      header.append(button);
      button.addEventListener("click", () => {
        const direction = NEXT[header.getAttribute("aria-sort") || "none"];
        columns.forEach((other) => other.removeAttribute("aria-sort"));
        if (direction !== "none") header.setAttribute("aria-sort", direction);
        sort(table, groups, column, direction);
      });
    });
  }

  // Filtering

  const wordsOf = (element) => (element ? element.textContent.toLowerCase() : "");

  function makeFilter(bar, table, groups) {
    const input = bar.querySelector("input");
    const output = bar.querySelector("output");
    const total = groups.reduce((sum, group) => sum + group.units.length, 0);
    const apply = () => {
      const wanted = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const { heading, units } of groups) {
        const above = wordsOf(heading);
        let here = 0;
        for (const unit of units) {
          const text = `${above} ${wordsOf(unit)}`;
          unit.hidden = !wanted.every((word) => text.includes(word));
          here += unit.hidden ? 0 : 1;
        }
        if (heading) heading.hidden = here === 0;
        shown += here;
      }
      output.textContent = wanted.length ? `${shown} of ${total} rows` : "";
      table.dispatchEvent(new Event("filtered"));
    };
    input.addEventListener("input", apply);
    input.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || !input.value) return;
      input.value = "";
      apply();
    });
  }

  /** A bar for a table that is folded away: where a table is in sight, its bar is in the page already. */
  function barFor(table) {
    const name = table.closest(".scroll").getAttribute("aria-label") || "this table";
    const bar = make("div", { className: "filter" });
    const label = make("label");
    label.append(make("span", { textContent: `Filter ${name}` }), " ", make("input", { type: "search" }));
    bar.append(label, make("output"));
    return bar;
  }

  const FEW_ROWS = 8;

  function makeTable(box) {
    const table = box.querySelector("table");
    if (!table || !table.tHead) return;
    const groups = unitsOf(table);
    const rows = groups.reduce((sum, group) => sum + group.units.length, 0);
    if (rows > 1) makeSortable(table, groups);
    let bar = box.previousElementSibling;
    if (!bar || !bar.classList.contains("filter")) {
      if (rows < FEW_ROWS || !box.closest("details:not(.fold)")) return;
      bar = barFor(table);
      box.before(bar);
    }
    makeFilter(bar, table, groups);
  }

  // The matrix

  /** The reason of the cell that the pointer or the keyboard is on, beside it and out of the page's flow. */
  function makeTip(matrix) {
    const said = make("p", { id: "tip-said" });
    const link = make("a", { tabIndex: -1, textContent: "Evidence" });
    const tip = make("div", { id: "tip", hidden: true });
    tip.append(said, link);
    matrix.closest("section").append(tip);
    let owner = null;
    let leaving = 0;
    const place = (cell) => {
      const at = cell.getBoundingClientRect();
      const { width, height } = tip.getBoundingClientRect();
      const below = at.bottom + 6 + height <= window.innerHeight;
      tip.style.left = `${Math.max(8, Math.min(at.left, document.documentElement.clientWidth - width - 8))}px`;
      tip.style.top = `${Math.max(8, below ? at.bottom + 6 : at.top - height - 6)}px`;
    };
    const hide = () => {
      clearTimeout(leaving);
      if (owner) owner.removeAttribute("aria-describedby");
      owner = null;
      tip.hidden = true;
    };
    const show = (cell) => {
      hide();
      owner = cell;
      said.textContent = cell.dataset.said;
      tip.className = cell.parentElement.className;
      link.href = cell.hash;
      cell.setAttribute("aria-describedby", said.id);
      tip.hidden = false;
      place(cell);
    };
    const leave = () => {
      clearTimeout(leaving);
      leaving = setTimeout(hide, 250);
    };
    tip.addEventListener("pointerenter", () => clearTimeout(leaving));
    tip.addEventListener("pointerleave", leave);
    link.addEventListener("click", hide);
    document.addEventListener("keydown", (event) => event.key === "Escape" && hide());
    document.addEventListener("pointerdown", (event) => {
      if (!tip.contains(event.target) && !matrix.contains(event.target)) hide();
    });
    const boxed = matrix.closest(".scroll");
    const follow = () => {
      if (!owner) return;
      const at = owner.getBoundingClientRect();
      const box = boxed.getBoundingClientRect();
      const seen = at.bottom > Math.max(0, box.top) && at.top < Math.min(window.innerHeight, box.bottom);
      if (seen && at.right > box.left && at.left < box.right) place(owner);
      else hide();
    };
    window.addEventListener("scroll", follow, { passive: true, capture: true });
    return { show, hide, leave, owner: () => owner };
  }

  /** One cell of the matrix is in the order of the tab key; the arrow keys move on from there. */
  function makeGrid(matrix, cells) {
    matrix.setAttribute("role", "grid");
    let current = null;
    const settle = (cell) => {
      if (current) current.tabIndex = -1;
      current = cell;
      if (current) current.tabIndex = 0;
    };
    cells.forEach((cell) => (cell.tabIndex = -1));
    settle(cells[0]);
    const visible = (row) => !row.hidden && row.querySelector("td a");
    const rows = () => [...matrix.rows].filter(visible);
    const inRow = (row) => all("td a", row);
    const atColumn = (row, column) => {
      const links = inRow(row);
      return links.find((link) => link.parentElement.cellIndex >= column) || links[links.length - 1];
    };
    const kernelAway = (there, from, step) => {
      const bodies = [...new Set(there.map((row) => row.parentElement))];
      const body = bodies[bodies.indexOf(from.parentElement) + step];
      return body && there.find((row) => row.parentElement === body);
    };
    const target = (key, whole) => {
      const row = current.closest("tr");
      const there = rows();
      const at = there.indexOf(row);
      const links = inRow(row);
      const column = current.parentElement.cellIndex;
      const below = (other) => other && atColumn(other, column);
      switch (key) {
        case "ArrowRight": return links[links.indexOf(current) + 1];
        case "ArrowLeft": return links[links.indexOf(current) - 1];
        case "ArrowDown": return below(there[at + 1]);
        case "ArrowUp": return below(there[at - 1]);
        case "PageDown": return below(kernelAway(there, row, 1));
        case "PageUp": return below(kernelAway(there, row, -1));
        case "Home": return whole ? inRow(there[0])[0] : links[0];
        case "End": return whole ? inRow(there[there.length - 1]).pop() : links[links.length - 1];
        default: return undefined;
      }
    };
    const KEYS = /^(Arrow(Right|Left|Down|Up)|Page(Down|Up)|Home|End)$/;
    matrix.addEventListener("keydown", (event) => {
      if (event.target !== current || event.altKey || event.metaKey || !KEYS.test(event.key)) return;
      event.preventDefault();
      const next = target(event.key, event.ctrlKey);
      if (next) next.focus();
    });
    matrix.addEventListener("focusin", (event) => event.target.matches("td a") && settle(event.target));
    matrix.addEventListener("filtered", () => {
      if (current && !current.closest("tr").hidden) return;
      const first = rows()[0];
      settle(first ? inRow(first)[0] : null);
    });
  }

  function makeMatrix(matrix) {
    const cells = all("td a", matrix);
    if (!cells.length) return;
    for (const cell of cells) {
      cell.dataset.said = cell.title;
      cell.removeAttribute("title");
    }
    makeGrid(matrix, cells);
    const tip = makeTip(matrix);
    const cellOf = (event) => event.target.closest && event.target.closest(".matrix td a");
    let touched = false;
    let shownBefore = false;
    matrix.addEventListener("pointerdown", (event) => {
      touched = event.pointerType !== "mouse";
      shownBefore = touched && tip.owner() !== null && tip.owner() === cellOf(event);
    });
    matrix.addEventListener("pointerover", (event) => {
      const cell = cellOf(event);
      if (event.pointerType === "mouse") cell ? tip.show(cell) : tip.leave();
    });
    matrix.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && tip.leave());
    matrix.addEventListener("focusin", (event) => cellOf(event) && tip.show(cellOf(event)));
    matrix.addEventListener("focusout", (event) => touched || tip.hide(event));
    // A finger has no hover: the first tap tells the reason, the second goes to the evidence.
    matrix.addEventListener("click", (event) => {
      const cell = cellOf(event);
      if (!cell) return;
      if (touched && !shownBefore) {
        event.preventDefault();
        tip.show(cell);
      } else {
        tip.hide();
      }
    });
  }

  // Folds

  /** Open whatever the place that a link leads to is folded into, and go there. */
  function reveal() {
    const id = decodeURIComponent(location.hash.slice(1));
    const goal = id && document.getElementById(id);
    if (!goal) return;
    for (let fold = goal.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
    goal.scrollIntoView({ block: goal.closest(".matrix-box") ? "nearest" : "start", inline: "nearest" });
    if (goal.matches(".exhibit")) goal.tabIndex = -1;
    if (goal.matches("a, [tabindex]")) goal.focus({ preventScroll: true });
  }

  let unfolded = [];
  window.addEventListener("beforeprint", () => {
    unfolded = all("details:not([open])");
    unfolded.forEach((fold) => (fold.open = true));
  });
  window.addEventListener("afterprint", () => unfolded.forEach((fold) => (fold.open = false)));
  window.addEventListener("hashchange", reveal);

  all(".scroll").forEach(makeTable);
  all(".matrix").forEach(makeMatrix);
  if (location.hash) reveal();
})();
