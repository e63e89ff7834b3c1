//! The summary as text, Markdown and JSON.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::instructions;
use super::mutants::Mutant;
use super::summary::{Break, Site, Summary};

/// Headings and rows. In a shorter row, the cell in the column `wide` spans the remaining columns.
struct Table {
    rows: Vec<Vec<String>>,
    wide: usize,
}

impl Table {
    fn new(head: Vec<String>, rows: impl Iterator<Item = Vec<String>>) -> Table {
        let wide = head.len();
        let rows = std::iter::once(head).chain(rows).collect();
        Table { rows, wide }
    }

    fn text(&self) -> String {
        let columns = self.rows[0].len();
        let width = |column: usize| {
            let rows = self.rows.iter();
            let cells = rows.filter(|row| row.len() == columns || column < self.wide);
            let cells = cells.filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            let cells = row.iter().zip(&widths);
            let line: String = cells
                .map(|(cell, width)| format!("{cell:width$}  "))
                .collect();
            text += line.trim_end();
            text += "\n";
        }
        text
    }

    fn markdown(&self) -> String {
        let columns = self.rows[0].len();
        let mut text = String::new();
        for (at, row) in self.rows.iter().enumerate() {
            let mut cells: Vec<String> = row.iter().map(|cell| cell.replace('|', "\\|")).collect();
            cells.resize(columns, String::new());
            text += &format!("| {} |\n", cells.join(" | "));
            if at == 0 {
                text += &format!("|{}\n", "---|".repeat(columns));
            }
        }
        text
    }
}

/// A row of words.
fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(String::from).to_vec()
}

fn tests(count: usize) -> String {
    match count {
        0 => "no test".to_string(),
        1 => "1 test".to_string(),
        tests => format!("{tests} tests"),
    }
}

/// The sites.
fn table(summary: &Summary) -> Table {
    let mut head = words(["site", "function", "order"]);
    head.extend(summary.models.iter().cloned());
    head.extend(words(["together", "needed by"]));
    let rows = summary.sites.iter().map(|site| {
        let source = &site.place.source;
        let order = format!("{} {}", site.place.operation, site.order.name());
        let mut row = vec![source.name(), source.function.clone(), order];
        if site.is_weakened() {
            row.extend(summary.models.iter().map(|model| site.in_words(model)));
            row.push(site.together.name().to_string());
            row.push(tests(site.needed_by.len()));
            row[1] = source.function();
        } else {
            row.push(format!("not weakened: {}", source.owner));
        }
        row
    });
    let mut table = Table::new(head, rows);
    table.wide = 3;
    table
}

/// The order mutants.
fn mutants(summary: &Summary) -> Table {
    let models: BTreeSet<&String> = summary
        .mutants
        .iter()
        .flat_map(|mutant| mutant.outcomes.keys())
        .collect();
    // In the order of their strength.
    let mut models: Vec<&String> = models.into_iter().collect();
    models.sort_by_key(|model| ["SC", "TSO", "RC11"].iter().position(|name| name == model));
    let mut head = words(["store", "function", "moved past", "function"]);
    head.extend(models.iter().map(|model| (*model).clone()));
    head.push("found by".to_string());
    let rows = summary.mutants.iter().map(|mutant| {
        let (store, past) = (&mutant.store, &mutant.past);
        let access = format!("{} {}", mutant.operation, past.name());
        let mut row = vec![store.name(), store.function(), access, past.function()];
        row.extend(
            models
                .iter()
                .map(|model| mutant.in_words(model).to_string()),
        );
        row.push(tests(mutant.found_by.len()));
        row
    });
    Table::new(head, rows)
}

/// The table of the instructions that all weakened orders save in total.
fn saved(summary: &Summary) -> Option<Table> {
    let counts = instructions::count(summary);
    let is_saved = counts.iter().any(|count| count.code != count.together);
    let head = words(["architecture", "instruction", "sites", "together"]);
    let rows = counts.into_iter().map(|count| {
        let (code, together) = (count.code.to_string(), count.together.to_string());
        words([count.arch, count.instruction, &code, &together])
    });
    is_saved.then(|| Table::new(head, rows))
}

/// The tables, what no test or one test alone needs, and the traces of the site that was asked for.
pub(super) fn text(summary: &Summary, site: Option<&str>) -> String {
    let mut text = String::new();
    if summary.sites.is_empty() && summary.mutants.is_empty() {
        text += &match site {
            Some(site) => format!("No test reaches an order above Relaxed at {site}.\n"),
            None => "No order above Relaxed was weakened.\n".to_string(),
        };
    }
    text += &tables(summary, Table::text);
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
        for trace in summary.mutants.iter().flat_map(Mutant::traces) {
            text += &format!("\n{trace}");
        }
    }
    text
}

pub(super) fn markdown(summary: &Summary) -> String {
    let mut text = tables(summary, Table::markdown);
    for paragraph in notes(summary) {
        text += &format!("\n{}", paragraph.replace("\n    ", "\n- "));
    }
    text
}

/// The tables that are not empty.
fn tables(summary: &Summary, form: fn(&Table) -> String) -> String {
    let sites = (!summary.sites.is_empty()).then(|| table(summary));
    let mutants = (!summary.mutants.is_empty()).then(|| mutants(summary));
    let tables = [sites, mutants, saved(summary)].into_iter().flatten();
    tables
        .map(|table| form(&table))
        .collect::<Vec<_>>()
        .join("\n")
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
    let missed = summary.mutants.iter().filter(|mutant| mutant.is_missed());
    let missed: String = missed
        .map(|mutant| format!("    {}\n", mutant.describe()))
        .collect();
    if !missed.is_empty() {
        notes.push(format!(
            "Stores that the code orders and these tests do not: equivalent, or a scenario is missing.\n{missed}"
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
    if summary
        .sites
        .iter()
        .any(|site| site.place.source.file.is_empty())
    {
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
    let function = &place.source.function;
    let name = place.source.name();
    format!("{name}, {function}, {operation} {order}")
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
        "mutants": summary.mutants.iter().map(Mutant::json).collect::<Vec<_>>(),
        "instructions": instructions::count(summary)
            .iter()
            .map(|count| {
                json!({
                    "architecture": count.arch,
                    "instruction": count.instruction,
                    "sites": count.code,
                    "together": count.together,
                })
            })
            .collect::<Vec<_>>(),
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
    let mut value = site.place.source.json();
    value["operation"] = site.place.operation.clone().into();
    value["order"] = site.order.name().into();
    value["effects"] = effects.collect::<Map<String, Value>>().into();
    value["together"] = site.together.name().into();
    value["needed_by"] = site.needed_by.iter().cloned().collect();
    value
}
