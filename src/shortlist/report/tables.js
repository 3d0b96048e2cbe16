// Tables that sort by a column's name, and show only rows that hold all the words typed and the values chosen. How many
// there are is said, as long tables scroll.
for (const box of document.querySelectorAll(".live")) {
  const MENU = 20;  // columns with more values than this have no menu: words find them
  const body = box.querySelector("tbody");
  const rows = [...body.rows];
  const heads = [...box.querySelectorAll("th")];
  const made = (tag, properties = {}, ...children) => {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
  };
  const textOf = (row, column) => (row.cells[column].firstChild?.textContent ?? "").trim();

  const words = made("input", { type: "search", placeholder: "Show only rows with these words" });
  words.setAttribute("aria-label", words.placeholder);
  const count = made("span", { className: "count" });
  count.setAttribute("role", "status");
  const menus = heads.flatMap((head, column) => {
    const values = [...new Set(rows.map((row) => textOf(row, column)))];
    if (head.classList.contains("number") || values.length < 2 || values.length > MENU) return [];
    const options = values.map((value) => made("option", { value, textContent: value || "none" }));
    const select = made("select", {}, made("option", { value: "*", textContent: "all" }), ...options);
    return [{ column, select, label: made("label", {}, head.textContent.trim() + " ", select) }];
  });

  const show = () => {
    const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    const chosen = menus.filter(({ select }) => select.selectedIndex > 0);
    let shown = 0;
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !(wanted.every((word) => text.includes(word))
        && chosen.every(({ column, select }) => textOf(row, column) === select.value));
      shown += !row.hidden;
    }
    const total = `${rows.length} ${rows.length === 1 ? "row" : "rows"}`;
    count.textContent = shown < rows.length ? `${shown} of ${total}` : total;
  };
  show();
  words.addEventListener("input", show);
  menus.forEach(({ select }) => select.addEventListener("change", show));
  box.before(made("div", { className: "controls" }, words, ...menus.map(({ label }) => label), count));

  heads.forEach((head, column) => {
    const isNumber = head.classList.contains("number");
    const numberOf = (row) => parseFloat(textOf(row, column).replaceAll(",", "").match(/-?\d[\d.]*(e[-+]?\d+)?/)?.[0]);
    const compare = (a, b) => {
      if (!isNumber) return textOf(a, column).localeCompare(textOf(b, column), undefined, { numeric: true });
      return numberOf(a) - numberOf(b);
    };
    const isEmpty = (row) => (isNumber ? Number.isNaN(numberOf(row)) : textOf(row, column) === "");
    const sort = () => {
      const goesDown = head.getAttribute("aria-sort") === (isNumber ? "descending" : "ascending") ? !isNumber : isNumber;
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", goesDown ? "descending" : "ascending");
      const full = rows.filter((row) => !isEmpty(row)).sort(goesDown ? (a, b) => compare(b, a) : compare);
      body.append(...full, ...rows.filter(isEmpty));  // what has no value comes last, either way
    };
    const button = made("button", { type: "button", textContent: head.textContent.trim() });
    button.addEventListener("click", sort);
    head.replaceChildren(button);
  });
}
