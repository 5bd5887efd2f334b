// The per-query explorer: choose two methods, filter to wins and losses, look at the pictures.
(() => {
  "use strict";
  const blocks = JSON.parse(document.getElementById("explorer-data").textContent);
  const root = document.getElementById("explorer");
  const at = id => document.getElementById(id);
  const blockSelect = at("ex-block"), ownSelect = at("ex-own"), rivalSelect = at("ex-rival"), search = at("ex-search");
  const filters = at("ex-filters"), list = at("ex-list"), inner = at("ex-rows"), detail = at("ex-detail"), count = at("ex-count");
  const ROW = 34;
  const MEANING = {
    all: () => true,
    win: (own, rival) => own && !rival,
    loss: (own, rival) => !own && rival,
    right: (own, rival) => own && rival,
    wrong: (own, rival) => !own && !rival,
  };
  let block, matching = [], kind = "all", chosen = -1, thumbs = null;

  const unpack = (text, Kind) => {
    const bytes = Uint8Array.from(atob(text), letter => letter.charCodeAt(0));
    return new Kind(bytes.buffer);
  };
  const open = record => {
    if (!record.ready) {
      record.rows = unpack(record.rows, Uint32Array);
      record.placeThumbs = unpack(record.placeThumbs, Int32Array);
      record.queryThumbs = unpack(record.queryThumbs, Int32Array);
      record.truth = unpack(record.truth, Int32Array);
      record.found = unpack(record.found, Uint32Array);
      record.right = unpack(record.right, Uint8Array);
      record.ready = true;
    }
    return record;
  };
  const picture = number => {
    if (number < 0) return null;
    thumbs ??= at("thumbs").textContent.trim().split("\n");
    return "data:image/jpeg;base64," + thumbs[number];
  };
  const isRight = (method, row) => block.right[method * block.rows.length + row] === 1;
  const make = (tag, name, text) => {
    const node = document.createElement(tag);
    if (name) node.className = name;
    if (text !== undefined) node.textContent = text;
    return node;
  };
  const fill = (select, labels, value) => {
    select.replaceChildren(...labels.map((label, number) => new Option(label, number)));
    select.value = value;
  };
  const mark = right => make("span", right ? "mark right" : "mark wrong", right ? "✓" : "✗");

  const counts = () => {
    const own = Number(ownSelect.value), rival = Number(rivalSelect.value), found = {all: 0, win: 0, loss: 0, right: 0, wrong: 0};
    for (let row = 0; row < block.rows.length; row++) {
      for (const name of Object.keys(found)) found[name] += MEANING[name](isRight(own, row), isRight(rival, row));
    }
    for (const button of filters.children) {
      const name = button.dataset.kind;
      const [ownName, rivalName] = [own, rival].map(number => block.methods[number].label);
      const words = {all: "all", win: ownName + " right, " + rivalName + " wrong", loss: rivalName + " right, " + ownName + " wrong",
        right: "both right", wrong: "both wrong"};
      button.replaceChildren(make("span", "", words[name] + " "), make("b", "", found[name].toLocaleString("en")));
      button.setAttribute("aria-pressed", String(name === kind));
    }
  };
  const filter = () => {
    const own = Number(ownSelect.value), rival = Number(rivalSelect.value), text = search.value.trim().toLowerCase();
    matching = [];
    for (let row = 0; row < block.rows.length; row++) {
      if (!MEANING[kind](isRight(own, row), isRight(rival, row))) continue;
      if (text && !block.names[row].toLowerCase().includes(text)) continue;
      matching.push(row);
    }
    count.textContent = matching.length.toLocaleString("en") + " of " + block.rows.length.toLocaleString("en") + " queries" +
      (block.rows.length < block.total ? " (the page holds " + block.rows.length.toLocaleString("en") + " of " +
        block.total.toLocaleString("en") + ", spread evenly)" : "") + " · " + block.protocol;
    list.scrollTop = 0;
    inner.style.height = matching.length * ROW + "px";
    const pictured = matching.find(row => block.queryThumbs[row] >= 0);
    show(matching.length ? (pictured ?? matching[0]) : -1);
    rows();
  };
  const rows = () => {
    const first = Math.max(0, Math.floor(list.scrollTop / ROW) - 4), last = Math.min(matching.length, first + Math.ceil(list.clientHeight / ROW) + 8);
    const own = Number(ownSelect.value), rival = Number(rivalSelect.value);
    const nodes = [];
    for (let place = first; place < last; place++) {
      const row = matching[place], node = make("button", "ex-row");
      node.type = "button";
      node.style.top = place * ROW + "px";
      node.dataset.row = row;
      node.setAttribute("aria-current", String(row === chosen));
      const name = make("span", "ex-name");
      name.append(make("bdi", "", block.names[row])); // its end tells names apart: the beginning is cut
      name.title = block.names[row];
      node.append(make("span", "ex-number", block.rows[row]), name,
        make("span", "ex-has", block.queryThumbs[row] >= 0 ? "▣" : ""), mark(isRight(own, row)), mark(isRight(rival, row)));
      nodes.push(node);
    }
    inner.replaceChildren(...nodes);
  };
  const tile = (title, words, thumb, state, colour) => {
    const figure = make("figure", state), source = picture(thumb);
    if (source) {
      const image = make("img");
      image.src = source;
      image.alt = title + ", " + words;
      figure.append(image);
    } else {
      figure.append(make("div", "no-picture", words));
    }
    const caption = make("figcaption");
    if (state) caption.append(mark(state === "right"), " ");
    const name = make("span", "", title);
    if (colour) name.style.borderBottom = "3px solid " + colour;
    caption.append(name, make("small", "", words));
    figure.append(caption);
    return figure;
  };
  const show = row => {
    chosen = row;
    if (row < 0) {
      detail.replaceChildren(make("p", "note", "No query is like that."));
      return;
    }
    const head = make("p", "ex-head");
    head.append(make("b", "", "query " + block.rows[row]), " " + block.names[row]);
    const truth = block.truth[row];
    const top = make("div", "tiles two"), grid = make("div", "tiles");
    top.append(tile("query", "query " + block.rows[row], block.queryThumbs[row], "", ""),
      truth < 0 ? tile("truth", "no place of the map is right", -1, "", "")
        : tile("truth", "place " + block.places[truth], block.placeThumbs[truth], "", ""));
    const first = [...new Set([Number(ownSelect.value), Number(rivalSelect.value)])];
    const order = [...first, ...block.methods.keys()].filter((number, place, all) => all.indexOf(number) === place);
    order.forEach(number => {
      const method = block.methods[number];
      const found = block.found[number * block.rows.length + row];
      grid.append(tile(method.label, "place " + block.places[found], block.placeThumbs[found], isRight(number, row) ? "right" : "wrong", method.colour));
    });
    detail.replaceChildren(head, top, grid);
  };
  const choose = number => {
    block = open(blocks[number]);
    const labels = block.methods.map(method => method.label);
    fill(ownSelect, labels, block.own);
    fill(rivalSelect, labels, block.rival);
    refresh();
  };
  const refresh = () => { counts(); filter(); };
  const step = by => {
    const place = Math.min(matching.length - 1, Math.max(0, matching.indexOf(chosen) + by));
    if (!matching.length) return;
    if (place * ROW < list.scrollTop) list.scrollTop = place * ROW;
    if ((place + 1) * ROW > list.scrollTop + list.clientHeight) list.scrollTop = (place + 1) * ROW - list.clientHeight;
    show(matching[place]);
    rows();
  };

  fill(blockSelect, blocks.map(record => record.title), 0);
  blockSelect.addEventListener("change", () => choose(Number(blockSelect.value)));
  ownSelect.addEventListener("change", refresh);
  rivalSelect.addEventListener("change", refresh);
  search.addEventListener("input", filter);
  filters.addEventListener("click", event => {
    const button = event.target.closest("button");
    if (!button) return;
    kind = button.dataset.kind;
    refresh();
  });
  list.addEventListener("scroll", rows, {passive: true});
  inner.addEventListener("click", event => {
    const node = event.target.closest(".ex-row");
    if (!node) return;
    show(Number(node.dataset.row));
    rows();
    list.focus({preventScroll: true});  // the row was drawn anew: keys go to the list
  });
  root.addEventListener("keydown", event => {
    if (event.target.matches("input, select")) return;
    const by = {ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10}[event.key];
    if (by) { event.preventDefault(); step(by); list.focus(); }
  });
  window.addEventListener("resize", rows);
  choose(0);
})();
