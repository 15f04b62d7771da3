"use strict";
// Optional: sorts tables by a click on a header, and opens the case that a link leads to. The page is whole without it.
(() => {
  const value = (cell) => {
    const given = cell.dataset.sort ?? cell.textContent.trim();
    const number = given === "" || given === "–" ? NaN : Number(given.replace(/,/g, ""));
    return { number, words: given };
  };
  // Numbers come before words, words before nothing, whichever way the rest is sorted.
  const compare = (a, b, sign) => {
    if (!Number.isNaN(a.number) && !Number.isNaN(b.number)) return sign * (a.number - b.number);
    if (Number.isNaN(a.number) !== Number.isNaN(b.number)) return Number.isNaN(a.number) ? 1 : -1;
    if (!a.words !== !b.words) return a.words ? -1 : 1;
    return sign * a.words.localeCompare(b.words, "en", { numeric: true });
  };
  const sort = (table, header) => {
    const ascending = header.getAttribute("aria-sort") !== "ascending";
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", ascending ? "ascending" : "descending");
    const rows = [...table.tBodies[0].rows].map((row) => ({ row, key: value(row.cells[header.cellIndex]) }));
    rows.sort((a, b) => compare(a.key, b.key, ascending ? 1 : -1));
    table.tBodies[0].append(...rows.map((entry) => entry.row));
  };
  for (const table of document.querySelectorAll("table.sortable")) {
    if (table.tBodies[0].rows.length < 2) continue;
    for (const header of table.tHead.rows[0].cells) {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...header.childNodes);
      header.append(button);
      button.addEventListener("click", () => sort(table, header));
    }
  }
  const open = () => {
    const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target && target.tagName === "DETAILS") target.open = true;
  };
  addEventListener("hashchange", open);
  open();
})();
