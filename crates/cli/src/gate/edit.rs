//! Writes figures into the text of a budget file.
//!
//! The text is edited, not composed anew: comments, order and whatever else people wrote stay, wherever they are in the file, and
//! figures are replaced where they are.

use std::collections::BTreeMap;

use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, TableLike, TomlError, Value};
use vmbell_report::gate::{Figures, Measured, Range};

/// The table of all figures.
const MEASURED: &str = "measured";
/// What a new budget says about them.
const COMMENT: &str = "# Figures, written by `vmbell gate --accept`; a range is the least, the median and the most of the boots.\n";

/// Why figures cannot be written.
#[derive(Debug, thiserror::Error)]
pub(super) enum EditError {
    /// The text is not TOML.
    #[error(transparent)]
    Syntax(#[from] TomlError),
    /// A key that must hold a table holds something else.
    #[error("'{0}' is not a table")]
    NotATable(String),
}

/// The text with these figures by kernel and VMM in place of those that it has.
pub(super) fn with_figures(
    text: &str,
    measured: &BTreeMap<String, BTreeMap<String, Measured>>,
) -> Result<String, EditError> {
    let mut document: DocumentMut = text.parse()?;
    if !document.contains_key(MEASURED) {
        begin_figures(&mut document);
    }
    let kernels = keep_only(document.as_table_mut(), MEASURED, measured)?;
    for (kernel, vmms) in measured {
        let of_kernel = keep_only(kernels, kernel, vmms)?;
        for (name, measured) in vmms {
            let vmm = table(of_kernel, name)?;
            for (key, value) in [("version", &measured.version), ("kernel", &measured.kernel)] {
                match value {
                    Some(value) => put(vmm, key, value.into()),
                    None => drop(vmm.remove(key)),
                }
            }
            let rows = keep_only(vmm, "rows", &measured.rows)?;
            for (row, figures) in &measured.rows {
                put(rows, row, inline(figures).into());
            }
        }
    }
    Ok(document.to_string())
}

/// Appends the table of the figures, after comments that end the text.
fn begin_figures(document: &mut DocumentMut) {
    let end = document.trailing().as_str().unwrap_or_default();
    let prefix = match end.trim_end() {
        "" => format!("\n{COMMENT}"),
        end => format!("{end}\n\n{COMMENT}"),
    };
    let mut table = Table::new();
    table.decor_mut().set_prefix(prefix);
    document.insert(MEASURED, Item::Table(table));
    document.set_trailing("");
}

/// The table `name` of `parent`, which is made if there is none.
fn table<'t>(
    parent: &'t mut dyn TableLike,
    name: &str,
) -> Result<&'t mut dyn TableLike, EditError> {
    let implicit = || {
        let mut table = Table::new();
        table.set_implicit(true);
        Item::Table(table)
    };
    let item = parent.entry(name).or_insert_with(implicit);
    let table = item.as_table_like_mut();
    table.ok_or_else(|| EditError::NotATable(name.to_owned()))
}

/// The same, without the keys that `kept` does not have.
fn keep_only<'t, T>(
    parent: &'t mut dyn TableLike,
    name: &str,
    kept: &BTreeMap<String, T>,
) -> Result<&'t mut dyn TableLike, EditError> {
    let table = table(parent, name)?;
    let keys = table.iter().map(|(key, _)| key.to_owned());
    let gone: Vec<String> = keys.filter(|key| !kept.contains_key(key)).collect();
    for key in gone {
        table.remove(&key);
    }
    Ok(table)
}

/// Sets `key` to `value`, and keeps the comments above it and on its line.
fn put(table: &mut dyn TableLike, key: &str, mut value: Value) {
    match table.get_mut(key) {
        Some(item) => {
            if let Some(old) = item.as_value() {
                *value.decor_mut() = old.decor().clone();
            }
            *item = Item::Value(value);
        }
        None => drop(table.insert(key, Item::Value(value))),
    }
}

/// The figures of a row in one line.
fn inline(figures: &Figures) -> InlineTable {
    let mut inline = InlineTable::new();
    for (key, range) in [("exits", figures.exits), ("to_vmm", figures.to_vmm)] {
        if let Some(range) = range {
            inline.insert(key, number_or_range(range));
        }
    }
    inline.insert("instructions", number_or_range(figures.instructions));
    for (key, counts) in [
        ("reasons", &figures.reasons),
        ("addresses", &figures.addresses),
    ] {
        if !counts.is_empty() {
            let counts = counts.iter().map(|(name, count)| (name, number(*count)));
            inline.insert(key, counts.collect());
        }
    }
    inline
}

/// One number if all boots agree.
fn number_or_range(range: Range) -> Value {
    if range.width() == 0.0 {
        return number(range.median);
    }
    let numbers: [f64; 3] = range.into();
    Value::Array(Array::from_iter(numbers.map(number)))
}

/// A whole number without a point.
fn number(number: f64) -> Value {
    /// All whole numbers up to here are numbers of `f64`, too.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    #[allow(clippy::cast_possible_truncation, reason = "a whole number of 53 bits")]
    match number.fract() == 0.0 && number.abs() <= EXACT {
        true => (number as i64).into(),
        false => number.into(),
    }
}

#[cfg(test)]
#[path = "edit_test.rs"]
mod tests;
