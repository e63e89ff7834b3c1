//! The summary as text, Markdown and JSON.

use serde_json::{Map, Value, json};

use super::summary::{Break, Site, Summary};

/// The headings and the rows of the table.
fn table(summary: &Summary) -> Vec<Vec<String>> {
    let mut head: Vec<String> = ["site", "function", "order"].map(String::from).to_vec();
    head.extend(summary.models.iter().cloned());
    head.extend(["together", "needed by"].map(String::from));
    let rows = summary.sites.iter().map(|site| {
        let place = &site.place;
        let order = format!("{} {}", place.operation, site.order.name());
        let mut row = vec![place.name(), place.function.clone(), order];
        if site.is_weakened() {
            row.extend(summary.models.iter().map(|model| site.in_words(model)));
            row.push(site.together.name().to_string());
            row.push(match site.needed_by.len() {
                0 => "no test".to_string(),
                1 => "1 test".to_string(),
                tests => format!("{tests} tests"),
            });
            if place.owner != "tested code" {
                row[1] += &format!(" ({})", place.owner);
            }
        } else {
            row.push(format!("not weakened: {}", place.owner));
        }
        row
    });
    std::iter::once(head).chain(rows).collect()
}

/// The table, what no test or one test alone needs, and the traces of the site that was asked for.
pub(super) fn text(summary: &Summary, site: Option<&str>) -> String {
    let rows = table(summary);
    let columns = rows[0].len();
    let width = |column: usize| {
        // The text about a site that is not weakened spans the other columns.
        let cells = rows.iter().filter(|row| row.len() == columns || column < 3);
        let cells = cells.filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    if summary.sites.is_empty() {
        text += &match site {
            Some(site) => format!("No test reaches an order above Relaxed at {site}.\n"),
            None => "No order above Relaxed was weakened.\n".to_string(),
        };
    } else {
        for row in &rows {
            let cells = row.iter().zip(&widths);
            let line: String = cells
                .map(|(cell, width)| format!("{cell:width$}  "))
                .collect();
            text += line.trim_end();
            text += "\n";
        }
    }
    for paragraph in notes(summary) {
        text += &format!("\n{paragraph}");
    }
    if site.is_some() {
        for site in &summary.sites {
            for (model, effect) in &site.effects {
                if let Some(weaker) = &effect.breaks {
                    text += &format!("\n{}", trace(site, model, weaker));
                }
            }
        }
    }
    text
}

pub(super) fn markdown(summary: &Summary) -> String {
    let rows = table(summary);
    let columns = rows[0].len();
    let mut text = String::new();
    for (at, row) in rows.iter().enumerate() {
        let mut cells: Vec<String> = row.iter().map(|cell| cell.replace('|', "\\|")).collect();
        cells.resize(columns, String::new());
        text += &format!("| {} |\n", cells.join(" | "));
        if at == 0 {
            text += &format!("|{}\n", "---|".repeat(columns));
        }
    }
    for paragraph in notes(summary) {
        text += &format!("\n{}", paragraph.replace("\n    ", "\n- "));
    }
    text
}

/// What follows from the table.
fn notes(summary: &Summary) -> Vec<String> {
    let list = |sites: &[&Site]| -> String {
        let lines = sites.iter().map(|site| format!("    {}\n", describe(site)));
        lines.collect()
    };
    let mut notes = Vec::new();
    let unneeded: Vec<&Site> = summary.unneeded().collect();
    if !unneeded.is_empty() {
        notes.push(format!(
            "Stronger than these tests need, under these models: superfluous, or a scenario is missing.\n{}",
            list(&unneeded)
        ));
    }
    for (test, sites) in summary.alone() {
        notes.push(format!(
            "Only this test needs them: {test}\n{}",
            list(&sites)
        ));
    }
    if !summary.is_minimal {
        notes.push(
            "A limit ended an exploration: the orders together may not be the weakest.\n".into(),
        );
    }
    for (test, report) in &summary.refused {
        let report: String = report.lines().map(|line| format!("    {line}\n")).collect();
        notes.push(format!("Not weakened: {test}\n{report}"));
    }
    if summary.sites.iter().any(|site| site.place.file.is_empty()) {
        notes.push(
            "A site without a line has no debug information: compile it with line tables (-g in C).\n"
                .into(),
        );
    }
    notes
}

fn describe(site: &Site) -> String {
    let place = &site.place;
    let (operation, order) = (&place.operation, site.order.name());
    let function = &place.function;
    format!("{}, {function}, {operation} {order}", place.name())
}

fn trace(site: &Site, model: &str, weaker: &Break) -> String {
    let Break {
        test,
        order,
        what,
        trace,
    } = weaker;
    let lines: String = trace.iter().map(|line| format!("    {line}\n")).collect();
    format!(
        "{}: with {order} under {model}, {test}: {what}\n{lines}",
        describe(site)
    )
}

pub(super) fn json(summary: &Summary) -> Value {
    let names = |sites: Vec<&Site>| sites.into_iter().map(describe).collect::<Vec<_>>();
    let alone = summary.alone().into_iter();
    let alone = alone.map(|(test, sites)| (test.to_string(), names(sites).into()));
    let refused = summary.refused.iter();
    json!({
        "models": summary.models,
        "sites": summary.sites.iter().map(|site| site_json(site, summary)).collect::<Vec<_>>(),
        "is_minimal": summary.is_minimal,
        "unneeded": names(summary.unneeded().collect()),
        "needed_by_one_test": alone.collect::<Map<String, Value>>(),
        "refused": refused
            .map(|(test, report)| json!({ "test": test, "report": report }))
            .collect::<Vec<_>>(),
        "explorations": summary.explorations,
        "executions": summary.executions,
    })
}

fn site_json(site: &Site, summary: &Summary) -> Value {
    let effects = site.effects.iter();
    let effects = effects.filter(|(model, _)| summary.models.contains(model));
    let effects = effects.map(|(model, effect)| {
        let breaks = effect.breaks.as_ref().map(|weaker| {
            json!({
                "order": weaker.order,
                "test": weaker.test,
                "what": weaker.what,
                "trace": weaker.trace,
            })
        });
        let value = json!({
            "result": site.in_words(model),
            "least": effect.least.name(),
            "limit": effect.limit,
            "breaks": breaks,
        });
        (model.clone(), value)
    });
    json!({
        "file": site.place.file,
        "line": site.place.line,
        "function": site.place.function,
        "owner": site.place.owner,
        "operation": site.place.operation,
        "order": site.order.name(),
        "effects": effects.collect::<Map<String, Value>>(),
        "together": site.together.name(),
        "needed_by": site.needed_by,
    })
}
