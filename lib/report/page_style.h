// How a report looks, on light screens, dark screens and paper.
#pragma once

namespace escalier::report {

inline constexpr const char* page_style = R"css(
:root{color-scheme:light dark;--ink:#1c2431;--quiet:#5d6878;--paper:#fff;--panel:#f5f7f9;--rule:#dfe4ea;
--c1:#2f6bb0;--c2:#c4572a;--c3:#2e8555;--c4:#8b54a0;--good:#2e8555;--bad:#b3372f;--wait:#b97a10;
--compute:#2f6bb0;--communication:#d9822b;--bubble:#c9cfd8;--reduction:#8b54a0;--optimizer:#2e8555;--data:#b3372f;--rest:#5d6878}
@media(prefers-color-scheme:dark){:root{--ink:#e4e8ee;--quiet:#9aa5b4;--paper:#14181f;--panel:#1d232c;--rule:#333c48;
--c1:#6fa8e8;--c2:#ee8f62;--c3:#63bf8d;--c4:#c08fd4;--good:#63bf8d;--bad:#ef7b72;--wait:#e3b04b;
--compute:#4d8bd0;--communication:#e0954a;--bubble:#4a5360;--reduction:#a873bd;--optimizer:#4aa873;--data:#d8625a;--rest:#9aa5b4}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:1120px;padding:28px 24px 60px;background:var(--paper);color:var(--ink);
font:15px/1.5 system-ui,"Segoe UI",Helvetica,Arial,sans-serif}
h1{font-size:26px;line-height:1.2;margin:0;overflow-wrap:anywhere}h2{font-size:18px;margin:38px 0 10px}
h3{font-size:14px;margin:18px 0 6px;color:var(--quiet);font-weight:600}
p{margin:6px 0}.quiet{color:var(--quiet)}a{color:var(--c1)}
header{display:flex;gap:14px;align-items:center;flex-wrap:wrap}
.badge{border-radius:999px;padding:2px 12px;font-size:13px;font-weight:600;border:1px solid currentColor}
.good{color:var(--good)}.bad{color:var(--bad)}.wait{color:var(--wait)}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:10px;margin:18px 0 4px}
.tile{background:var(--panel);border-radius:8px;padding:10px 14px}
.tile b{display:block;font-size:20px;line-height:1.3;font-variant-numeric:tabular-nums}
.tile span{color:var(--quiet);font-size:13px}
.chart{display:block;width:100%;height:auto;background:var(--panel);border-radius:8px;margin:8px 0}
.chart text{font:11.5px system-ui,"Segoe UI",Helvetica,Arial,sans-serif;fill:var(--quiet)}
.grid{stroke:var(--rule);fill:none}.tick{stroke:var(--quiet);fill:none}
.mark{stroke:var(--wait);stroke-dasharray:4 4;stroke-width:1.5;fill:none}
.curve{fill:none;stroke-width:1.8;stroke-linejoin:round;stroke-linecap:round}
.curve.c1{stroke:var(--c1)}.curve.c2{stroke:var(--c2)}.curve.c3{stroke:var(--c3)}.curve.c4{stroke:var(--c4)}
.curve.faint{stroke:var(--c1);stroke-opacity:.35;stroke-width:1.2}
circle.c2{fill:var(--c2)}circle.c1{fill:var(--c1)}circle.c3{fill:var(--c3)}
.pair{display:grid;grid-template-columns:1fr 1fr;gap:12px}@media(max-width:760px){.pair{grid-template-columns:1fr}}
.scroll{overflow-x:auto;max-width:100%}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:14px;min-width:60%}
th,td{padding:4px 12px;text-align:right;border-bottom:1px solid var(--rule);white-space:nowrap}
th{font-weight:600;color:var(--quiet);text-align:right}td.text,th.text{text-align:left;white-space:normal;overflow-wrap:anywhere}
.bars{display:grid;grid-template-columns:auto 1fr auto;gap:4px 10px;align-items:center;font-size:13px;font-variant-numeric:tabular-nums}
.bar{display:flex;height:18px;border-radius:4px;overflow:hidden;background:var(--panel)}
.bar i{display:block;height:100%}.bars+.scroll{margin-top:12px}
.key{display:flex;flex-wrap:wrap;gap:4px 18px;font-size:13px;color:var(--quiet);margin:8px 0 10px}
.key i{display:inline-block;width:11px;height:11px;border-radius:3px;margin-right:6px;vertical-align:-1px}
.compute{background:var(--compute)}.communication{background:var(--communication)}.bubble{background:var(--bubble)}
.reduction{background:var(--reduction)}.optimizer{background:var(--optimizer)}.data{background:var(--data)}
.m0{background:var(--c1)}.m1{background:var(--c2)}.m2{background:var(--c3)}.m3{background:var(--c4)}.m4{background:var(--wait)}
.m5{background:var(--bad)}.m6{background:var(--rest)}.m7{background:var(--bubble)}
.picture{background:#fff;border:1px solid var(--rule);border-radius:8px;padding:4px}
.picture img{display:block;max-width:none}.picture img.fit{max-width:100%;height:auto}
pre{background:var(--panel);border-radius:8px;padding:14px 16px;overflow-x:auto;font:13px/1.45 ui-monospace,"DejaVu Sans Mono",Menlo,monospace}
ul{margin:6px 0;padding-left:20px}footer{margin-top:40px;color:var(--quiet);font-size:13px}
@media print{body{max-width:none;padding:0}h2{break-after:avoid}.chart,tr{break-inside:avoid}}
)css";

}  // namespace escalier::report
