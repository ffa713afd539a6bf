// Draws the charts of the pages. The data of a chart is the JSON after its element. A chart is
// drawn when its section is expanded, and again when the theme or its width changes.
// Style: pure functions from data to ECharts options. The data (figure.rs) determines what is
// drawn, this script how.
"use strict";
(() => {
  const prefersDark = matchMedia("(prefers-color-scheme: dark)");
  const theme = () => {
    const style = getComputedStyle(document.documentElement);
    const of = (name) => style.getPropertyValue(name).trim();
    return { text: of("--text"), soft: of("--soft"), line: of("--line"), ground: of("--raised") };
  };
  const escape = (text) =>
    String(text).replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);

  // Formats numbers as number.rs does.
  const digits = (value) =>
    Math.abs(value) >= 99.95
      ? Math.round(value).toLocaleString("en-US")
      : String(Number(value.toPrecision(3)));
  const scaled = (value, step, units) => {
    let at = 0;
    while (Math.abs(value) >= step && at + 1 < units.length) { value /= step; at += 1; }
    return `${digits(value)} ${units[at]}`;
  };
  const human = (value, unit) => {
    if (unit === "B") return scaled(value, 1024, ["B", "KiB", "MiB", "GiB", "TiB"]);
    if (unit === "µs") return scaled(value, 1000, ["µs", "ms", "s"]);
    return `${digits(value)}${unit === "1/s" ? "/s" : unit ? ` ${unit}` : ""}`;
  };
  // Labels ticks in the unit that fits the axis: on one up to 25,000,000, 5,000,000 is "5 M".
  const tick = (value, unit, most) => {
    if (value === 0) return "0";
    if (unit === "B" || unit === "µs") return human(value, unit);
    const [by, sign] = most >= 2e9 ? [1e9, " G"] : most >= 2e6 ? [1e6, " M"] : most >= 2e4 ? [1e3, " k"] : [1, ""];
    return `${digits(value / by)}${sign}`;
  };
  const power = (value, unit) => tick(value, unit, value >= 1e9 ? 2e9 : value >= 1e6 ? 2e6 : value >= 1e3 ? 2e4 : 1);
  // Ticks of bytes are at multiples of a power of two; for other units ECharts chooses them.
  const steps = (most, unit, width) => {
    if (unit !== "B" || !(most > 0)) return { splitNumber: width < 500 ? 3 : 5 };
    const interval = Math.max(2 ** Math.ceil(Math.log2(most / (width < 500 ? 3 : 6))), 1);
    return { interval, max: Math.ceil(most / interval) * interval };
  };

  // An axis. `most` is the largest value; `of` is "x", "y", or "bars" for the value
  // axis of bars.
  const axis = (data, colors, of, most, width) => {
    const base = {
      name: data.name, nameLocation: "middle", nameGap: 26, nameTextStyle: { color: colors.soft, fontSize: 12 },
      axisLabel: { color: colors.soft, hideOverlap: true,
        formatter: (value) => data.scale === "log" ? power(value, data.unit) : tick(value, data.unit, most) },
      axisLine: { lineStyle: { color: colors.line } }, axisTick: { lineStyle: { color: colors.line } },
      splitLine: { show: of !== "x", lineStyle: { color: colors.line, opacity: .6 } }, minorSplitLine: { show: false },
    };
    const up = of === "y" ? { nameLocation: "end", nameGap: 10, nameTextStyle: { color: colors.soft, align: "left", fontSize: 12 } } : {};
    if (data.scale === "log") return { ...base, ...up, type: "log", logBase: 10, min: data.min ?? undefined };
    if (data.scale === "log2") return { ...base, type: "log", logBase: 2, max: most };
    if (data.scale === "names") {
      return { ...base, type: "category", data: data.names, boundaryGap: false,
        axisLabel: { color: colors.soft, interval: 0, alignMaxLabel: "right", alignMinLabel: "left" } };
    }
    return { ...base, ...up, type: "value", min: 0, ...(of === "x" ? { max: most, splitNumber: width < 500 ? 4 : 8 } : steps(most, data.unit, width)) };
  };
  const tooltip = (colors, formatter) => ({
    confine: true, backgroundColor: colors.ground, borderColor: colors.line,
    textStyle: { color: colors.text, fontSize: 12 }, formatter,
  });

  const largest = (values) => values.reduce((most, value) => Math.max(most, value), 0);
  const room = { left: 4, right: 16, top: 26, bottom: 34, outerBoundsMode: "same", outerBoundsContain: "axisLabel" };

  // Line charts. The tooltip shows the value of each curve that is nearest to the pointer.
  const lines = (data, colors, width, hidden) => {
    const shown = data.lines.filter((line) => !hidden.has(line.name));
    const areFew = new Set(shown.map((line) => line.name)).size <= 4;
    const curve = (line) => ({
      type: "line", name: line.name, data: line.points, showSymbol: line.points.length <= 20, symbol: line.look.symbol,
      symbolSize: 7, silent: line.is_faint, z: line.is_faint ? 1 : 3, color: line.look.color, emphasis: { disabled: true },
      lineStyle: { width: line.is_faint ? 1 : 2, opacity: line.is_faint ? .3 : 1, type: line.look.dash },
      itemStyle: { color: line.look.color, opacity: line.is_faint ? .3 : 1 },
      markLine: line.mark ? {
        silent: true, symbol: "none", animation: false, z: 5,
        lineStyle: { color: line.look.color, width: 6, opacity: .4, type: "solid" },
        label: { show: areFew && width >= 500, position: "insideEndTop", color: colors.text, fontSize: 11, formatter: line.mark.text,
          textBorderColor: colors.page, textBorderWidth: 3 },
        data: [[{ coord: [line.mark.from, line.mark.level] }, { coord: [line.mark.to, line.mark.level] }]],
      } : undefined,
    });
    const zeros = (line) => ({
      type: "scatter", name: line.name, data: line.zeros.map((x) => [x, data.y.min]), symbol: "rect", symbolSize: [2, 12],
      symbolOffset: [0, -6], silent: true, z: 4, itemStyle: { color: line.look.color, opacity: line.is_faint ? .5 : 1 },
    });
    const marked = shown.filter((line) => line.zeros.length && data.y.min);
    const label = (items) => {
      const strong = items.filter((item) => item.seriesType === "line" && !shown[item.seriesIndex].is_faint);
      if (!strong.length) return "";
      const x = strong[0].value[0];
      const at = data.x.scale === "names" ? data.x.names[x] : `${human(x, data.x.unit)} ${data.x.unit ? "" : data.x.name}`;
      const rows = strong.map((item) => `${item.marker}${escape(item.seriesName)} <b>${escape(human(item.value[1], data.y.unit))}</b>`);
      return [escape(at), ...rows].join("<br>");
    };
    const most = (at) => largest(shown.flatMap((line) => [...line.points.map((point) => point[at]), ...(at ? [] : line.zeros)]));
    return {
      grid: room, xAxis: axis(data.x, colors, "x", most(0), width), yAxis: axis(data.y, colors, "y", most(1), width),
      tooltip: { trigger: "axis", ...tooltip(colors, label) }, series: [...shown.map(curve), ...marked.map(zeros)],
    };
  };

  // Bar charts. Name and value are at the left, so that no text covers a bar.
  const bars = (data, colors, width) => {
    const names = partsOf(data).map((part) => part.name);
    const series = names.map((name, at) => ({
      type: "bar", name, stack: data.is_stacked ? "all" : undefined, barMaxWidth: 18, emphasis: { disabled: true },
      data: data.bars.map((bar) => {
        const part = bar.parts.find((own) => own.name === name);
        return { value: part?.value, itemStyle: { color: bar.look.color, opacity: part?.is_pale ? .4 : 1,
          borderColor: bar.look.color, borderWidth: part?.is_pale ? 1 : 0 } };
      }),
      markLine: at === 0 && data.limit ? {
        silent: true, symbol: "none", data: [{ xAxis: data.limit.value }], lineStyle: { color: colors.text, type: "dashed" },
        label: { formatter: data.limit.text, color: colors.text, position: "start", fontSize: 11 },
      } : undefined,
    }));
    const dots = data.bars.flatMap((bar, at) => bar.parts.flatMap((part) => part.repeats.map((value) => [value, at])));
    if (dots.length > data.bars.length) {
      series.push({ type: "scatter", data: dots, symbolSize: 5, silent: true, z: 6,
        itemStyle: { color: colors.page, borderColor: colors.text, borderWidth: 1 } });
    }
    const wide = width < 500 ? 118 : 190;
    const label = (items) => {
      const bar = data.bars[items[0].dataIndex];
      const parts = bar.parts.map((part) => `${names.length > 1 ? `${escape(part.name)} ` : ""}<b>${escape(human(part.value, data.x.unit))}</b>`);
      return [escape(bar.name), ...parts].join("<br>");
    };
    const ends = data.bars.map((bar) => data.is_stacked ? bar.parts.reduce((sum, part) => sum + part.value, 0)
      : largest(bar.parts.flatMap((part) => [part.value, ...part.repeats])));
    const most = largest([...ends, data.limit?.value ?? 0]);
    return {
      grid: { left: wide, right: 30, top: data.limit ? 22 : 6, bottom: data.x.name ? 40 : 22, outerBoundsMode: "none" },
      xAxis: axis(data.x, colors, "bars", most, width),
      yAxis: {
        type: "category", inverse: true, data: data.bars.map((bar) => bar.name), axisTick: { show: false },
        axisLine: { lineStyle: { color: colors.line } },
        axisLabel: {
          interval: 0, width: wide - 10, overflow: "truncate",
          formatter: (name, at) => `{name|${name.replace(/[{}|]/g, " ")}}\n{value|${data.bars[at].label}}`,
          rich: { name: { color: colors.text, fontSize: 12, lineHeight: 15 }, value: { color: colors.soft, fontSize: 11, lineHeight: 14 } },
        },
      },
      tooltip: { trigger: "axis", axisPointer: { type: "none" }, ...tooltip(colors, label) }, series,
    };
  };
  const partsOf = (data) => {
    const all = data.bars.flatMap((bar) => bar.parts);
    return all.filter((part, at) => all.findIndex((other) => other.name === part.name) === at);
  };

  // Scatter charts. A name is drawn only where it overlaps no other; the list above the chart
  // identifies the remaining points by symbol.
  const points = (data, colors, width, hidden) => {
    const shown = data.points.filter((point) => !hidden.has(point.name));
    const most = (at) => largest(shown.map((point) => point.at[at])) || 1;
    const [x, y] = [axis(data.x, colors, "bars", most(0), width), axis(data.y, colors, "y", most(1), width)];
    const place = (point) => [point.at[0] / (x.max ?? most(0)) * (width - 70), 260 * (1 - point.at[1] / most(1))];
    const taken = shown.map((point) => { const [left, top] = place(point); return [left - 7, top - 7, left + 7, top + 7]; });
    const positionOf = (point) => {
      const [left, top] = place(point);
      const wide = 7.5 * point.name.length + 4;
      const boxes = { right: [left + 9, top - 8, left + 9 + wide, top + 8], left: [left - 9 - wide, top - 8, left - 9, top + 8],
        top: [left - wide / 2, top - 25, left + wide / 2, top - 9], bottom: [left - wide / 2, top + 9, left + wide / 2, top + 25] };
      for (const [name, box] of Object.entries(boxes)) {
        const isFree = box[0] > -10 && box[2] < width - 50 && box[3] < 262
          && taken.every((other) => box[2] < other[0] || other[2] < box[0] || box[3] < other[1] || other[3] < box[1]);
        if (isFree) { taken.push(box); return name; }
      }
      return null;
    };
    return {
      grid: room, xAxis: x, yAxis: y,
      tooltip: { trigger: "item", ...tooltip(colors, (item) =>
        `${escape(item.name)}<br>${escape(human(item.value[0], data.x.unit))}, ${escape(human(item.value[1], data.y.unit))}`) },
      series: [{
        type: "scatter", symbolSize: 13, emphasis: { disabled: true }, itemStyle: { opacity: 1 },
        label: { formatter: "{b}", color: colors.text, fontSize: 12 },
        data: shown.map((point) => {
          const position = positionOf(point);
          return { name: point.name, value: point.at, symbol: point.look.symbol, itemStyle: { color: point.look.color },
            label: { show: position !== null, position: position ?? "right" } };
        }),
      }],
    };
  };

  const list = (label) => {
    const made = document.createElement("ul");
    made.className = "names";
    made.setAttribute("aria-label", label);
    made.add = (content) => {
      const item = document.createElement("li");
      item.append(content);
      made.append(item);
    };
    return made;
  };
  const dashes = { solid: "", dashed: "6 4", dotted: "2 3" };
  const symbols = { circle: '<circle cx="13" cy="6" r="4"/>', rect: '<rect x="9.5" y="2.5" width="7" height="7"/>',
    triangle: '<path d="M13 1.5 17.5 10h-9z"/>', diamond: '<path d="M13 1 18 6 13 11 8 6z"/>',
    pin: '<circle cx="13" cy="6" r="3"/>' };

  // A list of the names of curves or points, as buttons that hide and show them.
  const names = (element, data, hidden, redraw) => {
    const looks = new Map((data.lines ?? data.points).map((line) => [line.name, line.look]));
    const made = list("Names; press one to hide it");
    for (const [name, look] of looks) {
      const button = document.createElement("button");
      button.type = "button";
      button.setAttribute("aria-pressed", "true");
      const stroke = data.lines ? `<path d="M0 6h26" stroke="${look.color}" stroke-width="2" stroke-dasharray="${dashes[look.dash]}"/>` : "";
      button.innerHTML = `<svg viewBox="0 0 26 12" aria-hidden="true" fill="${look.color}">${stroke}${symbols[look.symbol]}</svg>`;
      button.append(name);
      button.addEventListener("click", () => {
        const isShown = hidden.delete(name) || !hidden.add(name);
        button.setAttribute("aria-pressed", String(isShown));
        redraw();
      });
      made.add(button);
    }
    element.before(made);
  };
  // A legend of the full and pale parts of bars.
  const parts = (element, data) => {
    const all = partsOf(data);
    if (all.length < 2) return;
    const made = list("Parts of a bar");
    for (const part of all) {
      const text = document.createElement("span");
      text.innerHTML = `<svg viewBox="0 0 26 12" aria-hidden="true"><rect x="1" y="1" width="24" height="10" fill="currentColor" stroke="currentColor" fill-opacity="${part.is_pale ? .4 : 1}"/></svg>`;
      text.append(part.name);
      made.add(text);
    }
    element.before(made);
  };

  const draw = (script) => {
    const element = document.getElementById(script.dataset.for);
    const data = JSON.parse(script.textContent);
    if (!element || !data) return;
    const hidden = new Set();
    element.classList.add("drawn");
    const tall = data.kind === "bars"
      ? 60 + data.bars.length * (data.is_stacked ? 38 : 38 + 12 * (Math.max(...data.bars.map((bar) => bar.parts.length)) - 1))
      : 320;
    element.style.height = `${tall}px`;
    const chart = echarts.init(element, null, { renderer: "svg" });
    const make = { lines, bars, points }[data.kind];
    const redraw = () => {
      const colors = { ...theme(), page: getComputedStyle(document.body).backgroundColor };
      chart.setOption({ animation: false, textStyle: { fontFamily: getComputedStyle(document.body).fontFamily },
        ...make(data, colors, element.clientWidth, hidden) }, true);
    };
    if (data.kind === "bars") parts(element, data);
    else names(element, data, hidden, redraw);
    redraw();
    prefersDark.addEventListener("change", redraw);
    new ResizeObserver(() => { if (element.clientWidth) { chart.resize(); redraw(); } }).observe(element);
  };

  // A chart in a closed <details> has no width, so it is drawn when that is opened.
  const pending = new Set(document.querySelectorAll("script[data-for]"));
  const drawVisible = () => {
    for (const script of pending) {
      if (script.closest("details:not([open])")) continue;
      pending.delete(script);
      draw(script);
    }
  };
  document.addEventListener("toggle", drawVisible, true);
  drawVisible();
})();
