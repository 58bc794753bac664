"use strict";
(() => {
  const root = document.documentElement;
  root.classList.add("script-reads");

  // A table that is wider than its place says so.
  const tell = (wide) => wide.classList.toggle("scrolls", wide.scrollWidth > wide.clientWidth + 1);
  const watch = "ResizeObserver" in window
    ? new ResizeObserver((entries) => entries.forEach(({ target }) => tell(target)))
    : null;
  const look = (wide) => (watch ? watch.observe(wide) : tell(wide));
  document.querySelectorAll(".wide").forEach(look);

  // Any user of the sample, by id; what comes from the log is only ever set as text.
  const embedded = document.getElementById("people");
  if (!embedded) return;
  const { items, users, candidates } = JSON.parse(embedded.textContent);
  const find = document.getElementById("find-user");
  const choose = document.getElementById("choose-user");
  const found = document.getElementById("found-users");
  const place = document.getElementById("chosen-user");

  function made(name, text, classes = "") {
    const element = document.createElement(name);
    element.textContent = text;
    if (classes) element.className = classes;
    return element;
  }

  function said(head, text) {
    const line = made("p", "", "did");
    line.append(made("b", head), ` ${text}`);
    return line;
  }

  function lists(user) {
    const table = made("table", "", "lists");
    table.append(made("caption", "What each candidate would show"));
    const head = table.createTHead().insertRow();
    for (const name of ["place", ...candidates]) {
      const cell = made("th", name, name === "place" ? "" : "word");
      cell.scope = "col";
      head.append(cell);
    }
    const body = table.createTBody();
    const longest = Math.max(0, ...user.lists.map((list) => list.length));
    for (let rank = 0; rank < longest; rank += 1) {
      const row = body.insertRow();
      row.append(made("td", String(rank + 1)));
      for (const list of user.lists) {
        const hit = user.chosen.includes(list[rank]);
        const cell = made("td", rank < list.length ? items[list[rank]] : "–", hit ? "word hit" : "word");
        if (hit) cell.append(made("span", " (chosen)", "unseen"));
        row.append(cell);
      }
    }
    const wide = made("div", "", "wide");
    Object.assign(wide, { tabIndex: 0, role: "region", ariaLabel: `What each candidate would show user ${user.id}` });
    wide.append(table);
    return wide;
  }

  function show(user) {
    const earlier = user.more > 0 ? `${user.more.toLocaleString("en")} earlier, then ` : "";
    const chosen = user.chosen.map((item, n) => items[item] + (user.ratings ? `: ${user.ratings[n]}` : ""));
    if (user.later > 0) chosen.push(`and ${user.later.toLocaleString("en")} more`);
    const person = made("section", "", "person");
    person.append(
      made("h3", `User ${user.id}`),
      said("History", earlier + (user.history.map((item) => items[item]).join(" · ") || "none: a new user")),
      said(place.dataset.came, chosen.join(" · ") || "nothing"),
      lists(user),
    );
    place.replaceChildren(person);
    look(person.querySelector(".wide"));
  }

  function offer() {
    const wanted = find.value.trim().toLowerCase();
    const fitting = users.map((user, n) => [user, n]).filter(([user]) => user.id.toLowerCase().includes(wanted));
    fitting.sort(([one], [other]) => (other.id.toLowerCase() === wanted) - (one.id.toLowerCase() === wanted));
    choose.replaceChildren(...fitting.map(([user, n]) => {
      const option = made("option", user.id);
      option.value = n;
      return option;
    }));
    found.textContent = wanted ? `${fitting.length} of ${users.length} users of the sample` : "";
    if (fitting.length) show(fitting[0][0]);
    else place.replaceChildren();
  }
  find.addEventListener("input", offer);
  choose.addEventListener("change", () => show(users[Number(choose.value)]));
  offer();
})();
