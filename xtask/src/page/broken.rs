//! A page on which everything is wrong: each check has to find its part of it, or it would find nothing on any page.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Result, ensure};

use super::browser::Chromium;
use super::checks;
use super::reports::Page;
use super::view::View;

const BROKEN: &str = "<!DOCTYPE html><html lang=en><title>broken</title><main>\
    <h1 style='color:#ccc;background:#fff'>Too pale</h1>\
    <div style='width:3000px'>Too wide</div>\
    <svg width=100 height=20><text x=0 y=15>one</text><text x=5 y=15>other</text></svg>\
    <img alt=picture src='absent.png'>\
    <script>console.log('chatter')</script></main>";

/// What the checks have to say of it.
const FOUND: [&str; 5] = [
    "pixels wide, 1280 are there",
    "cut: <div",
    "labels collide: one and other",
    "\"absent row\" has None of 1 bars",
    "axe-core: color-contrast",
];
const UNEXPECTED: [&str; 3] = ["request: \"file://", "log: ", "console: "];

/// Fails if a check misses what is wrong.
pub(super) fn is_found(chromium: &mut Chromium, axe: &str, folder: &Path) -> Result<()> {
    let page = Page {
        name: "broken",
        path: folder.join("broken.html"),
        bars: BTreeMap::from([("absent row".to_owned(), 1)]),
    };
    fs::write(&page.path, BROKEN)?;
    let mut open = chromium.open(&page.path)?;
    ensure!(
        checks::keyboard(&mut open).is_err(),
        "no link past the header is missed"
    );
    open.ask(&format!("{axe};\n'ready'"))?;
    open.show(View::ALL[0])?;
    let found = checks::check(&mut open, View::ALL[0], &page)?;
    for (wanted, all) in [(&FOUND[..], found), (&UNEXPECTED[..], open.unexpected())] {
        for part in wanted {
            let is_there = all.iter().any(|text| text.contains(part));
            ensure!(
                is_there,
                "the broken page is not said to have '{part}' but {all:#?}"
            );
        }
    }
    open.close()
}
