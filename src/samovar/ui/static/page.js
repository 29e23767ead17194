// Relative times, rows by keyboard, and what changes while you look. The page reads without it.
import { drawAll, refreshAll } from "/static/curves.js";

const POLL_MS = 2000;
const main = document.getElementById("main");
const live = document.getElementById("live");

// Times: exact in the document, relative on the screen.

const UNITS = [[86400 * 2, 86400, "d"], [3600 * 2, 3600, "h"], [120, 60, "min"], [0, 1, "s"]];

function relative(moment) {
  const seconds = (Date.now() - Date.parse(moment)) / 1000;
  const away = Math.abs(seconds);
  const [, size, unit] = UNITS.find(([from]) => away >= from);
  const text = `${Math.round(away / size)} ${unit}`;
  return away < 1.5 ? "now" : seconds < 0 ? `in ${text}` : `${text} ago`;
}

function showTimes(within = document) {
  for (const each of within.querySelectorAll("time")) {
    const text = relative(each.dateTime);
    if (each.textContent !== text) each.textContent = text;
  }
}

// Rows: one is current, any number are selected. The selection survives when rows are replaced.

const chosen = new Set();
let here = null;

const rows = () => [...main.querySelectorAll("table[data-rows] tbody tr")];

function showRows() {
  for (const row of rows()) {
    const run = row.dataset.run;
    const box = row.querySelector("input[type=checkbox]");
    if (box) box.checked = chosen.has(run);
    row.classList.toggle("chosen", chosen.has(run));
    row.classList.toggle("here", run !== undefined && run === here);
  }
  const text = document.getElementById("num-chosen");
  if (!text) return;
  text.textContent = chosen.size ? `${chosen.size} selected` : "select rows to compare them";
  for (const button of document.querySelectorAll("#chosen button")) {
    button.disabled = chosen.size < (button.dataset.key === "d" ? 2 : 1);
  }
}

function move(step) {
  const all = rows().filter((row) => row.dataset.run !== undefined);
  if (!all.length) return;
  const at = all.findIndex((row) => row.dataset.run === here);
  const next = all[Math.min(Math.max(at < 0 ? (step > 0 ? 0 : all.length - 1) : at + step, 0), all.length - 1)];
  here = next.dataset.run;
  showRows();
  next.scrollIntoView({ block: "nearest" });
}

function toggle(run) {
  if (run === null || run === undefined) return;
  chosen.has(run) ? chosen.delete(run) : chosen.add(run);
  showRows();
}

main.addEventListener("change", (event) => {
  const box = event.target;
  if (box.matches("#chosen input[name=run]")) {
    box.checked ? chosen.add(box.value) : chosen.delete(box.value);
    here = box.value;
    showRows();
  }
  if (box.matches("[data-smooth]")) box.form.requestSubmit();
});

main.addEventListener("submit", (event) => {
  // Selected rows that are not in the document any more are still selected; empty fields are not part of an address.
  if (event.target.id === "chosen") {
    event.preventDefault();
    compare(event.submitter?.getAttribute("formaction") ?? "/diff");
  } else if (event.target.method === "get") {
    for (const field of event.target.elements) {
      if (field.name && field.value === "" && field.type !== "select-multiple") field.disabled = true;
    }
  }
});

window.addEventListener("pageshow", () => {
  for (const field of main.querySelectorAll("input, select")) field.disabled = false;
  for (const box of main.querySelectorAll("#chosen input[name=run]:checked")) chosen.add(box.value);
  showRows();
});

function compare(page) {
  if (chosen.size < (page === "/diff" ? 2 : 1)) return;
  location.href = `${page}?${new URLSearchParams([...chosen].map((run) => ["run", run]))}`;
}

// Keys

const help = document.getElementById("help");
document.getElementById("keys").addEventListener("click", () => help.showModal());
let isGoing = false;

document.addEventListener("keydown", (event) => {
  const field = event.target;
  if (event.ctrlKey || event.metaKey || event.altKey || help.open) return;
  if (event.key === "Escape") {
    if (field.matches("input, select, textarea")) field.blur();
    else {
      chosen.clear();
      here = null;
      showRows();
    }
    return;
  }
  if (field.matches("input:not([type=checkbox]), select, textarea")) return;
  if (isGoing) {
    isGoing = false;
    const page = { o: "/", r: "/runs", c: "/curves", q: "/queue" }[event.key];
    if (page) location.href = page;
    return;
  }
  const onControl = field.matches("a, button, summary, input");
  const act = {
    j: () => move(1), ArrowDown: () => move(1), k: () => move(-1), ArrowUp: () => move(-1),
    x: () => toggle(here), " ": onControl ? null : () => toggle(here),
    d: () => compare("/diff"), c: () => compare("/curves"),
    "/": () => main.querySelector("[data-filter]")?.focus(),
    "?": () => help.showModal(), g: () => { isGoing = true; },
    Enter: onControl || here === null ? null : () => {
      rows().find((row) => row.dataset.run === here)?.querySelector("td.name a")?.click();
    },
  }[event.key];
  if (!act || ((event.key === "ArrowDown" || event.key === "ArrowUp") && !rows().length)) return;
  event.preventDefault();
  act();
});

// What changes: the same address with the cursor of what we have gives 304, or the new content. A hidden page waits.

let isAsking = false;
let failures = 0;

async function refresh() {
  if (document.hidden || isAsking) return;
  isAsking = true;
  try {
    if (main.querySelector("[data-live]")) await refreshParts();
    await refreshAll();
    failures = 0;
    live.textContent = "";
  } catch (error) {
    failures += 1;
    if (failures > 1) live.textContent = error instanceof TypeError ? "the server does not answer" : error.message;
  }
  live.classList.toggle("late", failures > 1);
  isAsking = false;
}

async function refreshParts() {
  const address = new URL(location.href);
  address.searchParams.set("after", main.dataset.cursor);
  const answer = await fetch(address, { cache: "no-store" });
  if (answer.status === 200) replace(await answer.text());
  if (answer.headers.has("x-cursor")) main.dataset.cursor = answer.headers.get("x-cursor");
  if (answer.status === 401) throw new Error("the server was started again: open the address that it printed");
  if (answer.status !== 200 && answer.status !== 304) throw new Error(`the server answers ${answer.status}`);
}

function replace(text) {
  const fresh = new DOMParser().parseFromString(text, "text/html");
  for (const old of main.querySelectorAll("[data-live]")) {
    const next = fresh.querySelector(`[data-live="${old.dataset.live}"]`);
    if (!next || next.innerHTML === old.dataset.last || old.contains(document.activeElement?.closest("input:not([type=checkbox]), select, textarea"))) continue;
    const open = new Set([...old.querySelectorAll("details[open]")].map((each) => each.id));
    const focused = old.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    old.dataset.last = next.innerHTML;
    old.innerHTML = next.innerHTML;
    for (const each of old.querySelectorAll("details")) each.open = open.has(each.id);
    if (focused) old.querySelector(`[href="${CSS.escape(focused)}"]`)?.focus();
  }
  showTimes();
  showRows();
}

showTimes();
showRows();
drawAll();
setInterval(showTimes, 1000);
setInterval(refresh, POLL_MS);
document.addEventListener("visibilitychange", refresh);
