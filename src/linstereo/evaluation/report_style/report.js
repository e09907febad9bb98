// Sort a table by the column whose heading is clicked; cells without a number stay last.
"use strict";

function sortBy(table, column, descending) {
  const body = table.tBodies[0];
  const rows = Array.from(body.rows);
  const key = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
  const numeric = column > 0;
  rows.sort((a, b) => {
    const x = key(a), y = key(b);
    if (numeric && (x === "" || y === "")) return (x === "") - (y === "");
    const order = numeric ? Number(x) - Number(y) : x.localeCompare(y, undefined, { numeric: true });
    return descending ? -order : order;
  });
  body.append(...rows);
}

for (const table of document.querySelectorAll("table.sortable")) {
  const headings = Array.from(table.tHead.rows[0].cells);
  headings.forEach((heading, column) => {
    heading.tabIndex = 0;
    const sort = () => {
      const before = heading.getAttribute("aria-sort");
      const descending = before ? before === "ascending" : column > 0;
      headings.forEach((other) => other.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", descending ? "descending" : "ascending");
      sortBy(table, column, descending);
    };
    heading.addEventListener("click", sort);
    heading.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        sort();
      }
    });
  });
}
