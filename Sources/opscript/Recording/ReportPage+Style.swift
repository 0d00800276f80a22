extension ReportPage {
    /// The page's style sheet.
    static let style: StaticString = #"""
        :root {
          --background: #ffffff; --text: #1c1e21; --faint: #5c6370; --line: #d5d9de; --panel: #f4f6f8;
          --select: #d6e6ff; --link: #0a58ca; --good: #1a7f37; --bad: #c4281c; --focus: #0a58ca;
        }
        @media (prefers-color-scheme: dark) {
          :root {
            --background: #14171a; --text: #e4e7eb; --faint: #9aa3ad; --line: #343a41; --panel: #1d2125;
            --select: #1f3a5f; --link: #79b0ff; --good: #5fce7c; --bad: #ff7b6e; --focus: #79b0ff;
          }
        }
        * { box-sizing: border-box; }
        body { margin: 0 auto; max-width: 80rem; padding: 1rem; background: var(--background); color: var(--text);
          font: 15px/1.45 system-ui, sans-serif; }
        h1 { font-size: 1.5rem; margin: 0; overflow-wrap: anywhere; }
        h2 { font-size: 1.15rem; margin: 2rem 0 .4rem; }
        h3 { font-size: 1rem; margin: 1rem 0 .4rem; }
        .note { color: var(--faint); margin: 0 0 .6rem; max-width: 60rem; }
        :focus-visible { outline: 2px solid var(--focus); outline-offset: 1px; }
        #summary { display: flex; flex-wrap: wrap; gap: .6rem; margin: 0; }
        #summary div { background: var(--panel); border: 1px solid var(--line); border-radius: 6px; padding: .5rem .9rem; }
        #summary dt { color: var(--faint); font-size: .85rem; }
        #summary dd { margin: 0; font-size: 1.15rem; font-variant-numeric: tabular-nums; }
        .failed { color: var(--bad); }
        .succeeded { color: var(--good); }
        #timeline-frame { max-height: 70vh; overflow-y: auto; }
        #timeline { display: block; width: 100%; height: 120px; background: var(--panel); border: 1px solid var(--line);
          border-radius: 6px; cursor: grab; touch-action: pan-y; }
        #tip { position: fixed; z-index: 1; max-width: 30rem; padding: .3rem .6rem; background: var(--background); color: var(--text);
          border: 1px solid var(--line); border-radius: 4px; white-space: pre-wrap; overflow-wrap: anywhere; pointer-events: none;
          font-size: .85rem; }
        #legend { list-style: none; display: flex; flex-wrap: wrap; gap: .2rem 1rem; padding: 0; margin: .5rem 0 0; font-size: .85rem; }
        #legend i { display: inline-block; width: .8em; height: .8em; border-radius: 2px; margin-right: .35em; }
        #path { max-height: 20rem; overflow: auto; margin: 0; padding: .4rem .4rem .4rem 4rem; background: var(--panel);
          border: 1px solid var(--line); border-radius: 6px; }
        #path button, #head button, .fold { font: inherit; color: inherit; background: none; border: 0; padding: 0; cursor: pointer;
          text-align: left; }
        #path button { color: var(--link); overflow-wrap: anywhere; }
        #path .skipped { list-style: none; color: var(--faint); }
        #replay { border-collapse: collapse; font-variant-numeric: tabular-nums; }
        #replay th, #replay td { text-align: right; padding: .15rem 1.2rem .15rem 0; border-bottom: 1px solid var(--line); }
        #search { font: inherit; width: 24rem; max-width: 100%; padding: .25rem .5rem; color: inherit; background: var(--background);
          border: 1px solid var(--line); border-radius: 4px; }
        #count { margin-left: 1rem; color: var(--faint); }
        #table { border: 1px solid var(--line); border-radius: 6px; overflow-x: auto; }
        #head, #rows { min-width: 72rem; }
        #head { background: var(--panel); border-bottom: 1px solid var(--line); overflow: hidden; scrollbar-gutter: stable; }
        #rows { height: 28rem; overflow-y: scroll; scrollbar-gutter: stable; position: relative; }
        #rows .space { position: absolute; top: 0; left: 0; width: 1px; }
        #rows .window { position: sticky; top: 0; height: 0; }
        .row { display: grid; height: 26px; align-items: center; padding: 0 .5rem; gap: .6rem;
          grid-template-columns: 3fr 1.5fr 1.6fr 6rem 9rem 6rem 1.6fr 6.5rem 3fr; }
        .row > * { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
        .row .number { text-align: right; font-variant-numeric: tabular-nums; }
        #head .row { font-weight: 600; }
        #rows .row { cursor: default; }
        #rows .row:hover { background: var(--panel); }
        #rows .row.selected { background: var(--select); }
        #details { margin: 0; padding: .6rem .8rem; background: var(--panel); border: 1px solid var(--line); border-radius: 6px;
          white-space: pre-wrap; overflow-wrap: anywhere; }

        """#
}
