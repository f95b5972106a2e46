// Sorts tables, explains columns, and changes the theme. All of it is more than the page
// needs: without JavaScript its tables, numbers and notes are the same.
"use strict";
(() => {
  const root = document.documentElement;
  root.classList.add("js");

  // The button changes between light and dark. Nothing is remembered.
  const theme = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const other = () => ((root.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark" ? "light" : "dark");
  const label = () => {
    theme.textContent = other() === "dark" ? "Dark" : "Light";
    theme.ariaLabel = `Change to ${other()} colours`;
  };
  theme.addEventListener("click", () => {
    root.dataset.theme = other();
    label();
  });
  system.addEventListener("change", label);
  theme.hidden = false;
  label();

  // A click on a column's name sorts by it, a second the other way round, and a third
  // restores the order that the rows had. The parts of a table are sorted each for
  // itself: a rule sets rows apart that are no like the others, such as a sum.
  const original = new WeakMap(); // of the rows of a part: each with the note below it
  const rowsOf = (part) => {
    if (!original.has(part)) {
      const rows = [];
      for (const row of part.rows) {
        if (row.classList.contains("note")) rows.at(-1).push(row);
        else rows.push([row]);
      }
      original.set(part, rows);
    }
    return original.get(part);
  };
  const text = (cell) => {
    if (!cell || cell.classList.contains("note")) return "";
    return Array.from(cell.childNodes, (n) => (n.nodeName === "I" ? "" : n.textContent)).join("").trim();
  };
  const collator = new Intl.Collator("en", { numeric: true });
  // A column has one unit, so what it shows can be compared.
  const number = (text) => parseFloat(text.replace("−", "-"));
  const sort = (head) => {
    const way = { ascending: "descending", descending: "" }[head.ariaSort] ?? "ascending";
    const table = head.closest("table");
    for (const th of table.tHead.rows[0].cells) th.removeAttribute("aria-sort");
    if (way) head.ariaSort = way;
    table.classList.toggle("sorted", way !== "");
    const cells = [...table.tBodies].flatMap((part) => rowsOf(part).map((row) => text(row[0].cells[head.cellIndex])));
    const words = head.classList.contains("words") && !cells.every((t) => t === "" || /^[+−]?\d+(\.\d+)?( |%|$)/.test(t));
    const sign = way === "descending" ? -1 : 1;
    for (const part of table.tBodies) {
      let rows = rowsOf(part);
      if (way) {
        const keyed = rows.map((row) => {
          const shown = text(row[0].cells[head.cellIndex]);
          const key = words ? shown : number(shown);
          return { row, key, empty: words ? key === "" : Number.isNaN(key) };
        });
        // What has no value stays at the end.
        keyed.sort((a, b) => a.empty - b.empty || (a.empty ? 0 : sign * (words ? collator.compare(a.key, b.key) : a.key - b.key)));
        rows = keyed.map((k) => k.row);
      }
      part.append(...rows.flat());
    }
  };
  document.addEventListener("click", (e) => {
    const head = e.target.closest("thead th");
    if (head && e.target.closest("button")) sort(head);
  });

  // The edge of a table fades where more of it lies beyond.
  const fade = (box) => box.classList.toggle("more", box.scrollLeft + box.clientWidth < box.scrollWidth - 1);
  const resized = new ResizeObserver((entries) => entries.forEach((e) => fade(e.target)));
  for (const box of document.querySelectorAll(".scroll")) {
    resized.observe(box);
    box.addEventListener("scroll", () => fade(box), { passive: true });
  }

  // What a column means shows while the mouse or the keyboard is on it.
  const balloon = document.createElement("div");
  balloon.id = "balloon";
  balloon.role = "tooltip";
  balloon.hidden = true;
  document.body.append(balloon);
  const hide = () => (balloon.hidden = true);
  const show = (of) => {
    balloon.textContent = document.getElementById(of.getAttribute("aria-describedby")).textContent;
    balloon.hidden = false;
    const at = of.getBoundingClientRect(), size = balloon.getBoundingClientRect();
    const left = Math.max(8, Math.min(at.left, root.clientWidth - size.width - 8));
    const below = at.top < size.height + 8; // else it would hide the rows that a column is sorted in
    balloon.style.left = `${left + scrollX}px`;
    balloon.style.top = `${(below ? at.bottom : at.top - size.height) + scrollY}px`;
  };
  const about = (e) => e.target.closest?.("[aria-describedby]");
  document.addEventListener("pointerover", (e) => {
    const of = about(e);
    if (of) show(of);
    else if (!e.target.closest?.("#balloon") && !about({ target: document.activeElement })) hide();
  });
  document.addEventListener("focusin", (e) => (about(e) ? show(about(e)) : hide()));
  document.addEventListener("focusout", hide);
  document.addEventListener("keydown", (e) => e.key === "Escape" && hide());
  document.addEventListener("scroll", hide, { capture: true, passive: true });

  // Paper has no details to open.
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details:not([open])")];
    for (const d of closed) d.open = true;
  });
  addEventListener("afterprint", () => {
    for (const d of closed) d.open = false;
  });
})();
