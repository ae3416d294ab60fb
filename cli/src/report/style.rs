//! The looks of the page, on a light and on a dark screen, and on paper.

/// The style sheet. Colours of charts are those of the segment map where they mean the same.
pub(super) const CSS: &str = "\
:root{--page:#fff;--ink:#1d2226;--dim:#667079;--line:#dfe3e6;--soft:#f4f6f7;--live:#009e73;\
--pinned:#e69f00;--garbage:#d55e00;--log:#56b4e9;--tree:#0072b2;--metadata:#999;--other:#555;\
--obsolete:#cc79a7}
@media(prefers-color-scheme:dark){:root{--page:#14171a;--ink:#e4e6e8;--dim:#9aa0a6;--line:#363c42;\
--soft:#1c2024}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);\
font:15px/1.5 system-ui,'Segoe UI',Roboto,'DejaVu Sans',sans-serif}
main{max-width:980px;margin:0 auto;padding:32px 24px}
h1{font-size:26px;margin:0 0 4px;overflow-wrap:anywhere}
h2{font-size:18px;margin:36px 0 12px;padding-bottom:4px;border-bottom:1px solid var(--line)}
h3{font-size:15px;margin:20px 0 6px;overflow-wrap:anywhere}
.dim{color:var(--dim)}footer{margin-top:40px;font-size:13px}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(140px,1fr));gap:12px;\
margin-top:20px}
.tile{background:var(--soft);border-radius:8px;padding:12px 14px}
.tile b{display:block;font-size:20px;font-variant-numeric:tabular-nums;white-space:nowrap}
.tile span{color:var(--dim);font-size:13px}
.card{border-left:4px solid var(--pinned);background:var(--soft);border-radius:4px;\
padding:10px 14px;margin:10px 0;overflow-wrap:anywhere}
.card.act{border-color:var(--garbage)}.card p{margin:4px 0 0}
.well{border-left:4px solid var(--live);background:var(--soft);padding:10px 14px;border-radius:4px}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{text-align:left;padding:4px 12px 4px 0;border-bottom:1px solid var(--line);\
vertical-align:top;overflow-wrap:anywhere}
th{color:var(--dim);font-weight:600;font-size:13px}
td.n,th.n{text-align:right;white-space:nowrap}
.wide{overflow-x:auto}
summary{cursor:pointer;overflow-wrap:anywhere;color:var(--dim);margin-bottom:8px}
.legend{display:flex;flex-wrap:wrap;gap:4px 18px;font-size:13px;margin:8px 0 0;padding:0}
.legend i{display:inline-block;width:11px;height:11px;border-radius:2px;margin-right:6px}
.wide text{white-space:pre}code{font:0.92em 'DejaVu Sans Mono',Menlo,Consolas,monospace}
.chart{display:block;width:100%;height:auto}
.chart text{font:13px system-ui,'DejaVu Sans',sans-serif;fill:var(--ink)}
.chart text.faint{fill:var(--dim)}.chart .grid{stroke:var(--line)}
@media(max-width:640px){section{overflow-x:auto}.chart{min-width:640px}}
@media print{main{max-width:none}details>*{display:block}}
";
