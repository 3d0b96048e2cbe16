// Tables that sort by a click on a column's name and show only the rows that hold all the words that are typed.
for (const box of document.querySelectorAll(".live")) {
  const body = box.querySelector("tbody");
  const rows = [...body.rows];
  const heads = [...box.querySelectorAll("th")];

  box.querySelector("input").addEventListener("input", (event) => {
    const words = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
    }
  });

  heads.forEach((head, column) => {
    const isNumber = head.classList.contains("number");
    const textOf = (row) => (row.cells[column].firstChild?.textContent ?? "").trim();
    const numberOf = (row) => parseFloat(textOf(row).replace(/[^-0-9.e]/g, ""));
    const compare = (a, b) => {
      if (!isNumber) return textOf(a).localeCompare(textOf(b), undefined, { numeric: true });
      return numberOf(a) - numberOf(b);
    };
    const isEmpty = (row) => (isNumber ? Number.isNaN(numberOf(row)) : textOf(row) === "");

    head.querySelector("button").addEventListener("click", () => {
      const goesDown = head.getAttribute("aria-sort") === (isNumber ? "descending" : "ascending") ? !isNumber : isNumber;
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", goesDown ? "descending" : "ascending");
      const full = rows.filter((row) => !isEmpty(row)).sort(goesDown ? (a, b) => compare(b, a) : compare);
      body.append(...full, ...rows.filter(isEmpty));  // what has no value comes last, either way
    });
  });
}
