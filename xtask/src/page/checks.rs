//! What has to be true of a page in each view.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use serde::Deserialize;
use serde_json::Value;

use super::browser::Open;
use super::reports::Page;
use super::view::View;

/// What a view shows, as JSON of [`Shown`]. Labels and rows are read as they are laid out.
const SHOWN: &str = include_str!("shown.js");

/// What axe-core finds, in words.
const AXE: &str = "axe.run(document, {preload: false, resultTypes: ['violations']}).then(found => \
    JSON.stringify(found.violations.flatMap(rule => rule.nodes.slice(0, 3).map(node => \
    rule.id + ': ' + node.target + ': ' + node.failureSummary))))";

#[derive(Debug, Deserialize)]
struct Shown {
    /// How wide the page is.
    width: u32,
    /// Elements that reach over the edge of the window; what scrolls in a box of its own does not count.
    cut: Vec<String>,
    /// Labels in drawings that touch each other.
    colliding: Vec<String>,
    /// For each row of the sections' charts its name, and how many bars it has whose length can be seen.
    rows: Vec<(String, usize)>,
}

/// What is wrong in this view.
pub(super) fn check(open: &mut Open<'_>, view: View, page: &Page) -> Result<Vec<String>> {
    let shown: Shown = serde_json::from_str(&open.ask(SHOWN)?)?;
    let mut found = Vec::new();
    if shown.width > view.width {
        found.push(format!(
            "the page is {} pixels wide, {} are there",
            shown.width, view.width
        ));
    }
    let cut = shown.cut.iter().map(|element| format!("cut: {element}"));
    let colliding = shown
        .colliding
        .iter()
        .map(|labels| format!("labels collide: {labels}"));
    found.extend(cut.chain(colliding));
    found.extend(bars(shown.rows, page));
    if view.is_wide() {
        let texts: Vec<String> = serde_json::from_str(&open.ask(AXE)?)?;
        found.extend(texts.iter().map(|text| format!("axe-core: {text}")));
    }
    Ok(found)
}

/// Rows without their bars.
fn bars(rows: Vec<(String, usize)>, page: &Page) -> Vec<String> {
    let mut drawn: BTreeMap<String, usize> = BTreeMap::new();
    for (name, bars) in rows {
        *drawn.entry(name).or_default() += bars;
    }
    page.bars
        .iter()
        .filter(|(name, bars)| drawn.get(*name) != Some(bars))
        .map(|(name, bars)| format!("{name:?} has {:?} of {bars} bars", drawn.get(name)))
        .collect()
}

/// The first key leads to the link past the header, and that can be seen then.
pub(super) fn keyboard(open: &mut Open<'_>) -> Result<()> {
    open.press_tab()?;
    let focus = open.ask(
        "(() => { const focus = document.activeElement; const left = focus.getBoundingClientRect().left;\
         focus.blur(); return JSON.stringify({name: focus.className, left}) })()",
    )?;
    let focus: Value = serde_json::from_str(&focus)?;
    let is_seen = focus["left"].as_f64().is_some_and(|left| left >= 0.0);
    ensure!(
        focus["name"] == "skip" && is_seen,
        "the first Tab leads to {focus}"
    );
    Ok(())
}

/// How many pages a PDF has.
pub(super) fn sheets(pdf: &[u8]) -> usize {
    const SHEET: &[u8] = b"/Type /Page\n";
    pdf.windows(SHEET.len())
        .filter(|bytes| *bytes == SHEET)
        .count()
}
