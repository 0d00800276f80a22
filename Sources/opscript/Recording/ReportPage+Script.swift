extension ReportPage {
    /// The page's script. It puts texts of the run into the page as text only.
    static let script: StaticString = #"""
        "use strict";
        const $ = id => document.getElementById(id);
        const outcomes = ["succeeded", "failed", "cancelled", "waiting", "executing"];
        const reasons = {
          added: "started when the script had added it", first: "was the first on its worker", creator: "was added by the operation before",
          dependency: "waited for the operation before, its dependency", worker: "waited until the operation before left the worker",
          maximum: "waited until the operation before made room in the queue", suspension: "waited for the end of a suspension",
        };

        function element(name, text, className) {
          const made = document.createElement(name);
          if (text !== undefined) made.textContent = text;
          if (className) made.className = className;
          return made;
        }
        function time(ns) {
          if (ns >= 1e9) return (ns / 1e9).toFixed(2) + " s";
          if (ns >= 1e6) return (ns / 1e6).toFixed(2) + " ms";
          return (ns / 1e3).toFixed(1) + " µs";
        }
        // A control character is shown as its symbol.
        const visible = text => text.replace(/[\x00-\x08\x0b-\x1f]/g, c => String.fromCharCode(0x2400 + c.charCodeAt(0)))
          .replace(/\x7f/g, "\u2421").replace(/[\u202a-\u202e\u2066-\u2069]/g, "\ufffd");

        // The run -------------------------------------------------------------------------------------------------------------

        // The data that are shown, their number of operations, and the number of all: the page of a long run shows only its latest part.
        // `failuresOf` has the errors of the attempts of operations that were tried again.
        let data, total = 0, addedCount = 0, texts, errors, queues, threads, threadNames, failuresOf;
        // The members of each group, and the numbers of the groups whose members the table does not show.
        let members, folded = new Set();
        const stored = JSON.parse($("data").textContent), isLive = stored === null;
        function show(next) {
          const isFirst = data === undefined, chosen = selected < 0 ? -1 : number(selected);
          const isAll = isFirst || (from <= origin && from + span >= data.end);
          data = next;
          total = data.name.length;
          addedCount = data.outcomes.reduce((sum, count) => sum + count);
          texts = data.texts.map(visible);
          errors = data.errors.map(visible);
          queues = data.queues.map(queue => ({ name: visible(queue[0]), maximum: queue[1] }));
          threads = data.threads.map(thread => ({ number: thread[0], name: visible(thread[1]) }));
          threadNames = new Map(threads.map(thread => [thread.number, thread.name]));
          members = new Map();
          data.group.forEach((group, i) => {
            if (group < 0) return;
            if (!members.has(group)) members.set(group, []);
            members.get(group).push(i);
          });
          failuresOf = new Map();
          for (const attempt of data.attempts) failuresOf.set(attempt[0], [...(failuresOf.get(attempt[0]) ?? []), attempt[4]]);
          // The first failure is selected until the user selects another operation.
          selected = -1;
          for (let i = 0; i < total && selected < 0; i++) if (chosen < 0 ? data.outcome[i] === 1 : number(i) === chosen) selected = i;
          summarize();
          arrangeTracks(isAll);
          legend();
          listPath();
          search(false);
          const details = selected < 0 ? "Select an operation." : describe(selected);
          if ($("details").textContent !== details) $("details").textContent = details;
          draw();
        }
        const number = i => data.number.length > 0 ? data.number[i] : i;
        const text = index => index < 0 ? "" : texts[index];
        const error = i => data.error[i] < 0 ? "" : errors[data.error[i]];
        const name = i => text(data.name[i]) || text(data.line[i]) || "operation";
        const ran = i => data.thread[i] >= 0;
        const outcome = i => data.skipped[i] ? "skipped" : outcomes[data.outcome[i]];
        // The thread or the worker of a cluster that ran it.
        const host = i => (threadNames.get(data.thread[i]) ?? "").replace(/, slot \d+$/, "");
        const waited = i => data.begin[i] - data.added[i];
        const runTime = i => ran(i) ? data.finished[i] - data.begin[i] : 0;
        function waits(i) {
          return [[data.dependencies[i], "dependencies"], [data.suspended[i], "suspension"], [data.maximum[i], "maximum"],
            [data.worker[i], "no free worker"], [data.sent[i], "the cluster"]].filter(wait => wait[0] > 0).sort((a, b) => b[0] - a[0]);
        }
        function describe(i) {
          const lines = [name(i), "outcome: " + outcome(i)];
          lines.push((data.group[i] < 0 ? "queue: " : "group: ") + queues[data.queue[i]].name);
          if (members.has(i)) lines.push("members: " + members.get(i).length);
          if (data.line[i] >= 0) lines.push("line: " + text(data.line[i]));
          lines.push("added at " + time(data.added[i]));
          lines.push("waited " + time(waited(i)) + waits(i).map(wait => "\n  " + time(wait[0]) + " " + wait[1]).join(""));
          const blocked = data.blocked[i] > 0 ? ", blocked for " + time(data.blocked[i]) + " of that" : "";
          lines.push(ran(i) ? `ran ${time(runTime(i))} on ${threadNames.get(data.thread[i])}${blocked}` : "did not run");
          (failuresOf.get(i) ?? []).forEach((failure, k) => {
            lines.push(`attempt ${k + 1} failed${failure < 0 ? "" : ": " + errors[failure].split("\n", 1)[0]}`);
          });
          if (data.error[i] >= 0) lines.push("", error(i));
          return lines.join("\n");
        }

        // Summary ------------------------------------------------------------------------------------------------------------

        function fact(label, value, className) {
          const group = element("div");
          group.append(element("dt", label), element("dd", value, className));
          $("summary").append(group);
        }
        function summarize() {
          const title = (isLive ? "Status of " : "Report of ") + visible(data.title);
          document.title = title;
          $("title").textContent = title;
          $("summary").replaceChildren();
          fact("Total time", time(data.end));
          fact("Operations", String(addedCount));
          outcomes.forEach((outcome, k) => { if (k === 0 || data.outcomes[k] > 0) fact(outcome, String(data.outcomes[k]), outcome); });
          if (data.skippedCount > 0) fact("skipped", String(data.skippedCount));
          fact("Workers", String(data.workers));
          const use = data.end > 0 ? 100 * data.busy / (data.workers * data.end) : 0;
          fact("Use of the workers", use.toFixed(0) + " %");
          const [machines, slots, slotTime] = data.cluster;
          if (slots === 0) return;
          fact("Workers of the cluster", `${machines} (${slots} slot${slots === 1 ? "" : "s"})`);
          fact("Use of their slots", (data.end > 0 ? 100 * slotTime / (slots * data.end) : 0).toFixed(0) + " %");
        }

        // Timeline -----------------------------------------------------------------------------------------------------------

        const canvas = $("timeline"), tip = $("tip"), axisHeight = 22, tallestCanvas = 16000;
        const labelFont = "12px system-ui, sans-serif";
        let labelWidth = 90;
        // Leaves out red hues, which mark failures.
        const hue = queue => 60 + (queue * 103 + 140) % 260;
        const dark = matchMedia("(prefers-color-scheme: dark)");
        const colour = queue => `hsl(${hue(queue)} 50% ${dark.matches ? 45 : 65}%)`;
        // The visible part begins at `from` and is `span` long. The whole timeline begins at `origin`.
        let tracks, rowHeight, inset, origin = 0, from = 0, span = 1, drag = null, frame = 0;
        function arrangeTracks(isAll) {
          // Blocked threads are replaced, so a run may have thousands of threads.
          rowHeight = Math.max(1, Math.min(22, Math.floor(tallestCanvas / Math.max(1, threads.length))));
          inset = rowHeight < 12 ? 0 : 3;
          tracks = threads.map(() => []);
          const pen = canvas.getContext("2d");
          pen.font = labelFont;
          labelWidth = threads.reduce((width, thread) => Math.max(width, pen.measureText(thread.name.slice(0, 60)).width + 14), 90);
          labelWidth = Math.min(labelWidth, Math.max(90, canvas.clientWidth / 3));
          const trackOf = new Map(threads.map((thread, k) => [thread.number, k]));
          for (const [i, thread, begin, left, error] of data.attempts) {
            tracks[trackOf.get(thread)].push({ i, begin, left, failed: true, error });
          }
          origin = total < addedCount ? data.end : 0;
          for (let i = 0; i < total; i++) {
            if (ran(i)) {
              tracks[trackOf.get(data.thread[i])].push({ i, begin: data.begin[i], left: data.left[i], failed: data.outcome[i] === 1 });
            }
            if (data.outcome[i] < 3) origin = Math.min(origin, data.begin[i]);
          }
          for (const track of tracks) track.sort((a, b) => a.begin - b.begin);
          canvas.style.height = Math.max(1, threads.length) * rowHeight + axisHeight + "px";
          if (isAll) [from, span] = [origin, Math.max(1, data.end - origin)];
        }
        const place = t => labelWidth + (t - from) / span * (canvas.clientWidth - labelWidth);
        const timeAt = x => from + (x - labelWidth) / (canvas.clientWidth - labelWidth) * span;
        // The first slice of a track that starts after a time. An operation that was tried again has several.
        function after(track, t) {
          let low = 0, high = track.length;
          while (low < high) {
            const middle = (low + high) >> 1;
            if (track[middle].begin <= t) low = middle + 1; else high = middle;
          }
          return low;
        }
        function draw() {
          frame = 0;
          const width = canvas.clientWidth, height = canvas.clientHeight, ratio = Math.min(devicePixelRatio || 1, 32000 / height);
          canvas.width = width * ratio;
          canvas.height = height * ratio;
          const style = getComputedStyle(document.documentElement), pen = canvas.getContext("2d");
          pen.scale(ratio, ratio);
          pen.font = labelFont;
          pen.textBaseline = "middle";
          tracks.forEach((track, row) => {
            const top = row * rowHeight;
            let edge = -1;
            // An operation that began earlier may reach into view. A thread runs few operations inside one another, so 8 are enough.
            for (let k = Math.max(0, after(track, from) - 8); k < track.length && track[k].begin <= from + span; k++) {
              const { i, begin, left: end, failed } = track[k], right = Math.min(width, place(end));
              const left = Math.max(labelWidth, place(begin));
              if (right < labelWidth || (right <= edge && !failed)) continue;
              const w = Math.max(1, right - left);
              pen.globalAlpha = data.skipped[i] ? .4 : 1;
              pen.fillStyle = colour(data.queue[i]);
              pen.fillRect(left, top + inset, w, rowHeight - 2 * inset);
              pen.globalAlpha = 1;
              if (failed) {
                pen.fillStyle = style.getPropertyValue("--bad");
                pen.fillRect(left, top + rowHeight - 2 * inset, w, Math.max(1, inset));
              }
              if (w > 40 && inset > 0) {
                pen.save();
                pen.beginPath();
                pen.rect(left, top, w - 3, rowHeight);
                pen.clip();
                pen.fillStyle = dark.matches ? "#ffffff" : "#000000";
                pen.fillText(name(i).slice(0, 100), left + 3, top + rowHeight / 2);
                pen.restore();
              }
              edge = Math.floor(left + w);
            }
            if (inset === 0) return;
            pen.fillStyle = style.getPropertyValue("--text");
            pen.fillText(threads[row].name, 6, top + rowHeight / 2, labelWidth - 10);
          });
          pen.fillStyle = style.getPropertyValue("--faint");
          for (const tick of ticks(from, span, Math.max(2, Math.floor((width - labelWidth) / 140)))) {
            pen.fillRect(place(tick.time), 0, .5, height);
            pen.fillText(tick.label, place(tick.time) + 3, height - axisHeight / 2);
          }
        }
        // Round times, at most `most` of them: 1, 2 or 5 times a power of ten apart, with as many decimals as that takes.
        function ticks(from, span, most) {
          const power = 10 ** Math.floor(Math.log10(span / most));
          const step = [1, 2, 5, 10].map(factor => factor * power).find(step => span / step <= most);
          const [unit, symbol] = [[1e9, "s"], [1e6, "ms"]].find(unit => from + span >= unit[0]) ?? [1e3, "µs"];
          const decimals = Math.max(0, -Math.floor(Math.log10(step / unit) + 1e-9)), list = [];
          for (let k = Math.ceil(from / step); k * step < from + span; k++) {
            list.push({ time: k * step, label: (k * step / unit).toFixed(decimals) + " " + symbol });
          }
          return list;
        }
        function redraw() { if (!frame) frame = requestAnimationFrame(draw); }
        function view(start, length) {
          span = Math.min(data.end - origin || 1, Math.max(1000, length));
          from = Math.max(origin, Math.min(data.end - span, start));
          redraw();
        }
        function zoom(factor, centre) { view(centre - (centre - from) * factor, span * factor); }
        function under(event) {
          const box = canvas.getBoundingClientRect(), track = tracks[Math.floor((event.clientY - box.top) / rowHeight)];
          if (!track || event.clientX - box.left < labelWidth) return null;
          const t = timeAt(event.clientX - box.left), slack = span / canvas.clientWidth;
          for (let k = after(track, t + slack) - 1, tries = 0; k >= 0 && tries < 8; k--, tries++) {
            if (track[k].left + slack >= t) return track[k];
          }
          return null;
        }
        canvas.addEventListener("wheel", event => {
          if (!event.ctrlKey && !event.metaKey) return;
          event.preventDefault();
          zoom(event.deltaY > 0 ? 1.25 : .8, timeAt(event.clientX - canvas.getBoundingClientRect().left));
        }, { passive: false });
        canvas.addEventListener("pointerdown", event => {
          drag = { x: event.clientX, from, moved: false };
          canvas.setPointerCapture(event.pointerId);
        });
        canvas.addEventListener("pointermove", event => {
          if (drag) {
            drag.moved ||= Math.abs(event.clientX - drag.x) > 3;
            if (drag.moved) view(drag.from - (event.clientX - drag.x) / (canvas.clientWidth - labelWidth) * span, span);
          }
          const slice = under(event);
          tip.hidden = !slice;
          if (!slice) return;
          const attempt = slice.error === undefined ? "" : `an attempt that failed after ${time(slice.left - slice.begin)}` +
            `${slice.error < 0 ? "" : ": " + errors[slice.error].split("\n", 1)[0]}\n\n`;
          tip.textContent = (attempt + describe(slice.i)).slice(0, 600);
          tip.style.left = Math.max(0, Math.min(event.clientX + 12, innerWidth - tip.offsetWidth - 8)) + "px";
          tip.style.top = Math.max(0, Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8)) + "px";
        });
        canvas.addEventListener("pointerup", event => {
          const slice = drag && !drag.moved ? under(event) : null;
          drag = null;
          if (slice) select(slice.i);
        });
        canvas.addEventListener("pointercancel", () => { drag = null; });
        canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
        canvas.addEventListener("keydown", event => {
          const centre = from + span / 2;
          if (event.ctrlKey || event.metaKey || event.altKey) return;
          if (event.key === "+" || event.key === "=") zoom(.8, centre);
          else if (event.key === "-" || event.key === "−") zoom(1.25, centre);
          else if (event.key === "ArrowLeft") view(from - span / 8, span);
          else if (event.key === "ArrowRight") view(from + span / 8, span);
          else if (event.key === "0") view(origin, data.end);
          else return;
          event.preventDefault();
        });
        dark.addEventListener("change", () => { redraw(); legend(); });
        addEventListener("resize", () => { redraw(); render(); });
        function legend() {
          $("legend").replaceChildren(...queues.slice(0, 30).map((queue, k) => {
            const item = element("li"), patch = element("i");
            patch.style.background = colour(k);
            item.append(patch, queue.name + (queue.maximum < 0 ? "" : ` (maximum ${queue.maximum})`));
            return item;
          }));
          if (queues.length > 30) $("legend").append(element("li", `and ${queues.length - 30} more`));
        }

        // Critical path and estimates ------------------------------------------------------------------------------------------

        const mostSteps = 400;
        function listPath() {
          $("path").replaceChildren();
          data.path.forEach(listStep);
          const onPath = data.path.reduce((sum, step) => sum + runTime(step[0]), 0);
          $("path-summary").textContent = data.path.length === 0 ? "No operation has run." :
            `${data.path.length} of ${total} operations, which ran for ${time(onPath)} of ${time(data.end - origin)}.`;
          $("replay-section").hidden = data.replay.length === 0;
          $("replay").tBodies[0].replaceChildren();
          for (const [workers, estimate] of data.replay) {
            const row = element("tr"), own = workers === data.workers ? " (as in this run)" : "";
            const ratio = estimate > 0 ? (data.end / estimate).toFixed(2) + " times as fast" : "–";
            row.append(element("th", workers + own), element("td", time(estimate)), element("td", ratio));
            row.firstChild.scope = "row";
            $("replay").tBodies[0].append(row);
          }
        }
        function listStep(step, k) {
          const i = step[0], skipped = data.path.length - mostSteps;
          if (skipped > 0 && k >= mostSteps / 2 && k < data.path.length - mostSteps / 2) {
            if (k === mostSteps / 2) $("path").append(element("li", `… ${skipped} more operations …`, "skipped"));
            return;
          }
          const item = element("li"), button = element("button", name(i));
          item.value = k + 1;
          button.type = "button";
          button.addEventListener("click", () => select(i));
          const line = data.name[i] >= 0 && data.line[i] >= 0 ? ` (${text(data.line[i])})` : "";
          const waitTexts = waits(i).map(wait => `${time(wait[0])} (${wait[1]})`).join(", ");
          item.append(button, `${line}: ran ${time(runTime(i))}; ${reasons[step[1]]}${waitTexts ? `; waited ${waitTexts}` : ""}`);
          $("path").append(item);
        }

        // Table ----------------------------------------------------------------------------------------------------------------

        const columns = [
          { title: "Name", key: name }, { title: "Queue", key: i => queues[data.queue[i]].name },
          { title: "Line", key: i => text(data.line[i]) }, { title: "Waited", key: waited, show: i => time(waited(i)) },
          { title: "Waited for", key: i => waits(i).length ? waits(i)[0][1] : "" },
          { title: "Ran", key: runTime, show: i => ran(i) ? time(runTime(i)) : "–" },
          { title: "Ran on", key: host }, { title: "Outcome", key: outcome },
          { title: "Error", key: i => error(i).split("\n", 1)[0] },
        ];
        // Browsers limit the height of an element.
        const lineHeight = 26, tallest = 8e6, rows = $("rows");
        const space = element("div", undefined, "space"), pane = element("div", undefined, "window");
        let order = [], sorted = -1, direction = 1, selected = -1;
        pane.setAttribute("role", "presentation");
        space.setAttribute("role", "presentation");
        rows.append(pane, space);
        $("table").setAttribute("aria-colcount", columns.length);
        const headRow = element("div", undefined, "row");
        headRow.setAttribute("role", "row");
        headRow.setAttribute("aria-rowindex", 1);
        columns.forEach((column, k) => {
          const cell = element("div", undefined, column.show ? "number" : ""), button = element("button", column.title);
          cell.setAttribute("role", "columnheader");
          cell.setAttribute("aria-sort", "none");
          button.type = "button";
          button.addEventListener("click", () => sort(k));
          cell.append(button);
          headRow.append(cell);
        });
        $("head").append(headRow);
        function arrange() {
          if (sorted < 0) {
            order.sort((a, b) => a - b);
            if (order.length === total) order = nested();
            return;
          }
          const key = columns[sorted].key, keys = new Map(order.map(i => [i, key(i)]));
          order.sort((a, b) => {
            const x = keys.get(a), y = keys.get(b);
            return x < y ? -direction : x > y ? direction : a - b;
          });
        }
        // All operations, each group followed by its members, unless it is folded.
        function nested() {
          const list = [], pending = order.filter(i => data.group[i] < 0).reverse();
          while (pending.length > 0) {
            const i = pending.pop();
            list.push(i);
            if (!members.has(i) || folded.has(number(i))) continue;
            for (const member of members.get(i).toReversed()) pending.push(member);
          }
          return list;
        }
        const isNested = () => sorted < 0 && $("search").value.trim() === "";
        function depth(i) {
          let count = 0;
          for (let group = data.group[i]; group >= 0 && count < 8; group = data.group[group]) count++;
          return count;
        }
        function fold(i) {
          if (!folded.delete(number(i))) folded.add(number(i));
          search(false);
        }
        // The button that folds a group, before its name.
        function folder(i) {
          const isFolded = folded.has(number(i)), button = element("button", isFolded ? "▸" : "▾", "fold");
          button.type = "button";
          button.setAttribute("aria-expanded", String(!isFolded));
          button.setAttribute("aria-label", "members of " + name(i));
          button.addEventListener("click", event => {
            event.stopPropagation();
            fold(i);
          });
          return button;
        }
        function sort(k) {
          direction = sorted === k ? -direction : columns[k].show ? -1 : 1;
          sorted = k;
          [...headRow.children].forEach((cell, other) => {
            cell.setAttribute("aria-sort", other !== k ? "none" : direction > 0 ? "ascending" : "descending");
            cell.firstChild.textContent = columns[other].title + (other !== k ? "" : direction > 0 ? " ▲" : " ▼");
          });
          search(true);
        }
        const shown = () => Math.max(1, Math.floor(rows.clientHeight / lineHeight));
        const scale = () => Math.max(1, order.length - shown()) / Math.max(1, space.offsetHeight - rows.clientHeight);
        function render() {
          space.style.height = Math.min(tallest, order.length * lineHeight) + "px";
          const first = Math.max(0, Math.min(order.length - shown(), Math.round(rows.scrollTop * scale())));
          const visibleRows = order.slice(first, first + shown()).map((i, k) => {
            const row = element("div", undefined, i === selected ? "row selected" : "row");
            row.setAttribute("role", "row");
            row.setAttribute("aria-rowindex", first + k + 2);
            if (i === selected) row.setAttribute("aria-current", "true");
            columns.forEach(column => {
              const cell = element("div", column.show ? column.show(i) : column.key(i), column.show ? "number" : "");
              cell.setAttribute("role", "cell");
              row.append(cell);
            });
            if (isNested()) {
              row.children[0].style.paddingLeft = .5 + depth(i) + "em";
              if (members.has(i)) row.children[0].prepend(folder(i));
            }
            row.children[7].classList.add(outcomes[data.outcome[i]]);
            row.addEventListener("click", () => select(i));
            return row;
          });
          pane.replaceChildren(...visibleRows);
          $("table").setAttribute("aria-rowcount", order.length + 1);
          $("count").textContent = order.length === total ? `${total} operations` : `${order.length} of ${total} operations`;
        }
        function select(i) {
          selected = i;
          $("details").textContent = describe(i);
          render();
        }
        function search(isNew) {
          const words = $("search").value.toLowerCase().split(/\s+/).filter(Boolean);
          order = [];
          for (let i = 0; i < total; i++) {
            if (words.length === 0) {
              order.push(i);
              continue;
            }
            const all = [name(i), text(data.line[i]), queues[data.queue[i]].name, host(i), outcomes[data.outcome[i]], error(i)]
              .join("\n").toLowerCase();
            if (words.every(word => all.includes(word))) order.push(i);
          }
          arrange();
          if (isNew) rows.scrollTop = 0;
          render();
        }
        let pause = 0;
        $("search").addEventListener("input", () => {
          clearTimeout(pause);
          pause = setTimeout(search, 120, true);
        });
        rows.addEventListener("scroll", render, { passive: true });
        rows.addEventListener("keydown", event => {
          const step = { ArrowDown: 1, ArrowUp: -1, PageDown: shown(), PageUp: -shown(), Home: -total, End: total }[event.key];
          if (step === undefined || order.length === 0 || event.ctrlKey || event.metaKey || event.altKey) return;
          event.preventDefault();
          const now = order.indexOf(selected), next = now < 0 ? 0 : Math.max(0, Math.min(order.length - 1, now + step));
          const first = Math.round(rows.scrollTop * scale());
          if (next < first) rows.scrollTop = next / scale();
          if (next >= first + shown()) rows.scrollTop = (next - shown() + 1) / scale();
          select(order[next]);
        });

        // The server of the status page ---------------------------------------------------------------------------------------

        function listen() {
          const source = new EventSource("events" + location.search), state = text => { $("state").textContent = text; };
          state("Waiting for the run …");
          source.addEventListener("message", event => {
            show(JSON.parse(event.data));
            state("The run goes on." + (total < addedCount ? " Below are its latest operations." : ""));
          });
          source.addEventListener("end", () => {
            source.close();
            state("The run has ended.");
          });
          source.addEventListener("error", () => state("The connection is lost, perhaps because the run has ended. Trying again …"));
        }
        if (isLive) listen(); else show(stored);

        """#
}
