#include "forecast/page/look.h"

#include <array>
#include <string_view>

#include <fmt/core.h>

#include "forecast/memory.h"

namespace moesh::forecast {
namespace {

struct Shade {
  std::string_view name, light, dark;
};

// m: components of memory, in their order; k: kinds of kernels; x: collectives, by their axes.
constexpr std::array kShades{
    Shade{"m0", "#1c5d99", "#7cb8f0"}, Shade{"m1", "#3a7fb8", "#4f93cf"},  Shade{"m2", "#2f7d3c", "#7fcf8c"},
    Shade{"m3", "#5f7285", "#94a3b2"}, Shade{"m4", "#717c87", "#a5afb8"},  Shade{"m5", "#1a7f73", "#4fc3b3"},
    Shade{"m6", "#8b4fa8", "#c99be0"}, Shade{"m7", "#bd501b", "#f0946a"},  Shade{"m8", "#9c730b", "#dcb95f"},
    Shade{"m9", "#66717c", "#8f9aa5"}, Shade{"m10", "#85705f", "#b9a593"}, Shade{"m11", "#8c959e", "#5f6a75"},
    Shade{"k0", "#1f6fb4", "#6db3f2"}, Shade{"k1", "#1a7f73", "#4fc3b3"},  Shade{"k2", "#5f7f9f", "#9db8d2"},
    Shade{"k3", "#6f7882", "#a9b2bb"}, Shade{"k4", "#9c730b", "#dcb95f"},  Shade{"x0", "#bd501b", "#f0946a"},
    Shade{"x1", "#8b4fa8", "#c99be0"}, Shade{"x2", "#2f7d3c", "#7fcf8c"},  Shade{"x3", "#b5316a", "#ee86b0"},
    Shade{"x4", "#9c730b", "#e0bd66"}, Shade{"x5", "#5b6671", "#a2acb6"},
};
static_assert(kComponents == 12, "each component of memory has a shade");

constexpr const char* kStyle = R"(
:root{--on:#fff;--bad:#b3261e;--wait:#e9b8b3;--free:#dfe5ea}
@media(prefers-color-scheme:dark){:root{--on:#10151a;--bad:#ff8a80;--wait:#6a2f2c;--free:#2a3139}}
body{max-width:1240px}h3{font-size:1rem;margin:1.2rem 0 .4rem}section>figure,section>details{margin-bottom:.8rem}
nav{margin:.6rem 0 1rem;font-size:.9rem}nav a{margin-right:1rem}a{color:var(--c0)}
small{color:var(--faint);font-weight:400}.note{font-size:.9rem;margin:.35rem 0 .5rem}.small{font-size:.85rem;margin:.2rem 0}
.plan-head p{color:var(--text);margin:.5rem 0 .3rem}
pre{margin:0;overflow-x:auto;white-space:pre-wrap;overflow-wrap:anywhere;font:12.5px/1.5 ui-monospace,monospace}
.command{position:relative;padding:.55rem .8rem;background:var(--panel);border-radius:6px}
.command button{float:right;margin-left:.6rem;font:inherit;color:var(--faint);background:var(--back);border:1px solid var(--grid);
 border-radius:4px;cursor:pointer}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,165px),1fr));gap:.7rem;margin:1rem 0}
.tile figcaption{font-size:.85rem}.tile small{font-size:.78rem}
.figure strong{font-size:1.45rem;font-weight:600;display:inline-block;margin-right:.4rem}
.figure em{font-style:normal;color:var(--faint);font-size:.9rem}
.figure small{display:block}.figure+.figure{margin-top:.5rem}.bad strong{color:var(--bad)}.figure .plan{display:block}
.plan{font-size:.9rem;font-weight:600;margin-right:.6rem;color:var(--text);white-space:nowrap}
.legend{display:flex;flex-wrap:wrap;gap:.2rem 1.1rem;font-size:.85rem;margin:.2rem 0 .6rem}
.legend .key,.card .key,.plan .key{border-radius:3px}
svg.wide{min-width:820px}svg text.on{fill:var(--on)}svg text.strong{fill:var(--text);font-weight:600}svg text{pointer-events:none}
.limit{stroke:var(--text);stroke-width:1.5;stroke-dasharray:5 3}.free{fill:var(--free)}.over{fill:none;stroke:var(--bad);stroke-width:3}
.peak{fill:var(--text);stroke:var(--back);stroke-width:2}.wait{fill:var(--wait);background:var(--wait)}
.idle{fill:var(--free);opacity:.55}
.edge{stroke:var(--panel);stroke-width:.6}
.stretch{fill:var(--free)}.stretch.inner{fill:var(--free);opacity:.6}.cell{fill:var(--free)}.first{fill:var(--text)}
.cards{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,400px),1fr));gap:.8rem;margin-bottom:1rem}
.beside{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,440px),1fr));gap:0 1rem}
.card{display:flex;gap:1rem;align-items:flex-start}.card>div{min-width:0}.card h3{margin:.1rem 0 .3rem}
.card p{margin:.15rem 0;font-size:.88rem}.card p.big{color:var(--text);font-size:1rem;font-weight:600}
.card ul{margin:.3rem 0;padding-left:1.1rem;font-size:.88rem}svg.group{width:150px;flex:none}.ring{fill:none}.chord{opacity:.75}
.dot{fill:var(--panel);stroke:var(--text);stroke-width:1.4}
.tall .scroll{max-height:640px;overflow:auto}.tall th{position:sticky;top:0;background:var(--back)}
summary{cursor:pointer;overflow-wrap:anywhere;padding:.3rem 0}details p{margin:.2rem 0}
th{color:var(--faint);font-weight:600;overflow-wrap:normal}th[role]{cursor:pointer}th[aria-sort=ascending]:after{content:" \2191"}
th[aria-sort=descending]:after{content:" \2193"}
td.n{white-space:nowrap}.tall td:nth-child(-n+3){white-space:nowrap}.tall td:nth-child(4){min-width:15rem}
#find{width:100%;max-width:420px;padding:.45rem .7rem;font:inherit;color:inherit;background:var(--panel);
 border:1px solid var(--grid);border-radius:6px;margin-bottom:.6rem}
.t{border-bottom:1px solid var(--grid);font-size:.88rem}
.t>summary,.head{display:grid;grid-template-columns:minmax(0,35fr) minmax(0,65fr);gap:.15rem 1rem;padding:.35rem 0;list-style:none}
.t>summary b{position:relative;font-weight:500;overflow-wrap:anywhere;padding-left:1.1em}
.t>summary b:before{content:"\25b8";position:absolute;left:0;color:var(--faint)}
.t[open]>summary b:before{content:"\25be"}.head b,.head span{color:var(--faint)}.head b{padding-left:1.1em}
.place{grid-column:2;display:grid;grid-template-columns:minmax(0,5fr) minmax(0,4fr) 5.4rem 4rem;gap:0 .8rem}.place small{display:block}
.place .n{text-align:right;font-variant-numeric:tabular-nums}
.several .place{grid-template-columns:4.6rem minmax(0,5fr) minmax(0,4fr) 5.4rem 4rem}.place span{overflow-wrap:anywhere}
.other>summary{background:var(--panel)}
.whys{display:flex;flex-wrap:wrap;gap:1rem;padding:.2rem 0 .8rem 1em}.whys>div{flex:1 1 380px;min-width:0;overflow-x:auto}
.rules{font-size:.85rem}.rules td:last-child{white-space:nowrap}.rules td{padding:.15rem .9rem .15rem 0}
.won td:first-child:before{content:"\2713";color:var(--c2);display:inline-block;width:1.2em}
.lost{color:var(--faint)}.lost td:first-child:before{content:"\2013";display:inline-block;width:1.2em}
#tip{position:fixed;z-index:9;max-width:460px;padding:.35rem .6rem;background:var(--text);color:var(--back);border-radius:5px;
 font-size:.82rem;pointer-events:none;overflow-wrap:anywhere}
@media(max-width:700px){body{padding:1rem .8rem}.card{flex-direction:column}.t>summary,.head{grid-template-columns:minmax(0,1fr)}
.place{grid-column:1;grid-template-columns:minmax(0,1fr) minmax(0,1fr);padding-left:1em}
.several .place{grid-template-columns:minmax(0,1fr) minmax(0,1fr)}.several .place .plan{grid-column:1/3}.head{display:none}}
)";

constexpr const char* kScript = R"(
(function(){
var all=function(what,where){return Array.prototype.slice.call((where||document).querySelectorAll(what))};
all('table.sortable').forEach(function(table){all('th',table).forEach(function(head,column){
 head.setAttribute('role','button');head.tabIndex=0;
 var sort=function(){
  var down=head.getAttribute('aria-sort')!=='descending',body=table.tBodies[0];
  all('th',table).forEach(function(other){other.removeAttribute('aria-sort')});
  head.setAttribute('aria-sort',down?'descending':'ascending');
  var key=function(row){var cell=row.cells[column],v=cell.getAttribute('data-v');return v===null?cell.textContent:+v};
  all('tr',body).map(function(row){return[key(row),row]}).sort(function(a,b){
   var order=typeof a[0]==='number'?b[0]-a[0]:a[0]<b[0]?1:a[0]>b[0]?-1:0;
   return down?order:-order}).forEach(function(pair){body.appendChild(pair[1])})};
 head.addEventListener('click',sort);
 head.addEventListener('keydown',function(e){if(e.key==='Enter'||e.key===' '){e.preventDefault();sort()}})})});
var find=document.getElementById('find');
if(find){find.hidden=false;
 var rows=all('details.t').map(function(row){return[row,row.firstElementChild.textContent.toLowerCase()]});
 find.addEventListener('input',function(){var words=find.value.toLowerCase().split(/\s+/);
  rows.forEach(function(row){row[0].hidden=!words.every(function(word){return row[1].indexOf(word)>=0})});
  all('.tensors').forEach(function(group){group.previousElementSibling.hidden=!all('details.t:not([hidden])',group).length})})}
all('.command').forEach(function(box){if(!navigator.clipboard)return;var text=box.textContent,button=document.createElement('button');
 button.textContent='copy';
  button.addEventListener('click',function(){navigator.clipboard.writeText(text).then(function(){button.textContent='copied'})});
 box.insertBefore(button,box.firstChild)});
var tip=document.createElement('div');tip.id='tip';tip.hidden=true;document.body.appendChild(tip);
all('svg title').forEach(function(title){title.parentNode.setAttribute('data-tip',title.textContent);title.remove()});
document.addEventListener('mousemove',function(e){var text=e.target.getAttribute&&e.target.getAttribute('data-tip');tip.hidden=!text;
 if(text){tip.textContent=text;tip.style.left=Math.max(4,Math.min(e.clientX+14,innerWidth-tip.offsetWidth-8))+'px';
  tip.style.top=(e.clientY+20+tip.offsetHeight>innerHeight?e.clientY-tip.offsetHeight-10:e.clientY+18)+'px'}});
})();
)";

}  // namespace

std::string page_style() {
  std::string light, dark, uses;
  for (const Shade& shade : kShades) {
    light += fmt::format("--{}:{};", shade.name, shade.light);
    dark += fmt::format("--{}:{};", shade.name, shade.dark);
    uses += fmt::format(".{0}{{fill:var(--{0});background:var(--{0})}}line.{0},circle.{0}{{stroke:var(--{0})}}\n",
                        shade.name);
  }
  for (int plan = 0; plan < 6; ++plan) uses += fmt::format(".p{0}{{background:var(--c{0})}}\n", plan);
  return fmt::format(":root{{{}}}\n@media(prefers-color-scheme:dark){{:root{{{}}}}}\n{}{}", light, dark, uses, kStyle);
}

std::string page_script() { return kScript; }

}  // namespace moesh::forecast
