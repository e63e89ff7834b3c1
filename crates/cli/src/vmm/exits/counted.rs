//! Exits of the operations of each row, from the counts of batches.

use std::collections::BTreeMap;

use super::super::document::{Batches, Document};
use super::tally::Marked;
use crate::columns::{Counted, CountedRows};

/// What was counted of the rows in `document`, whose boot had these marks.
pub(super) fn counted(
    document: &Document,
    marked: &BTreeMap<u8, Marked>,
) -> Result<CountedRows, &'static str> {
    if marked.is_empty() {
        return Err("the trace has no marks of the image");
    }
    let mut rows = Vec::new();
    for row in &document.rows {
        let Ok(batches) = &row.result else { continue };
        let same = document.rows.iter().filter(|other| other.mark == row.mark);
        let counted = match row.mark {
            Some(mark) if same.count() == 1 => of_row(batches, marked.get(&mark)),
            _ => Err("it has no mark of its own".to_owned()),
        };
        rows.push((row.name.clone(), counted));
    }
    Ok(rows)
}

fn of_row(batches: &Batches, marked: Option<&Marked>) -> Result<Vec<Counted>, String> {
    let seen = marked.map_or(0, |marked| marked.batches.len());
    if let Some(spoilt) = marked.and_then(|marked| marked.spoilt) {
        return Err(spoilt.to_owned());
    }
    let wanted = batches.ticks.len();
    let Some(marked) = marked.filter(|_| seen == wanted) else {
        return Err(format!("{seen} of its {wanted} batches are in the trace"));
    };
    #[allow(clippy::cast_precision_loss, reason = "far fewer operations than 2^53")]
    let operations = batches.operations as f64;
    let of_batch = |reasons: &vmbell_report::ReasonsOfRun| Counted {
        operations,
        reasons: reasons.clone(),
        counts: Vec::new(),
    };
    Ok(marked.batches.iter().map(of_batch).collect())
}

#[cfg(test)]
#[path = "counted_test.rs"]
mod tests;
