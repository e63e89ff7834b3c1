//! Exits of one operation, from the counts of batches.

use std::collections::BTreeMap;

use super::super::document::{Batches, Document};
use super::tally::Marked;
use vmbell_report::{ExitReasons, Exits};

/// What was counted of each row of a VMM.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) struct Counted(BTreeMap<String, Result<OfRow, String>>);

/// What was counted of a row, for one operation.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) struct OfRow {
    /// The exits that the operation causes: the median over batches.
    pub(in super::super) exits: Option<Exits>,
    /// All exits by their reasons: the mean over batches.
    pub(in super::super) reasons: ExitReasons,
}

impl Counted {
    /// The counts of the rows in `document`, whose boot had these marks.
    pub(super) fn new(
        document: &Document,
        marked: &BTreeMap<u8, Marked>,
    ) -> Result<Self, &'static str> {
        if marked.is_empty() {
            return Err("the trace has no marks of the image");
        }
        let mut rows = BTreeMap::new();
        for row in &document.rows {
            let Ok(batches) = &row.result else { continue };
            let same = document.rows.iter().filter(|other| other.mark == row.mark);
            let counted = match row.mark {
                Some(mark) if same.count() == 1 => of_row(batches, marked.get(&mark)),
                _ => Err("it has no mark of its own".to_owned()),
            };
            rows.insert(row.name.clone(), counted);
        }
        Ok(Self(rows))
    }

    /// What was counted of a row, or why nothing was.
    pub(in super::super) fn of(&self, name: &str) -> Result<&OfRow, &str> {
        let row = self.0.get(name);
        let row = row.ok_or("the row had no numbers in the boot that counts")?;
        row.as_ref().map_err(String::as_str)
    }
}

fn of_row(batches: &Batches, marked: Option<&Marked>) -> Result<OfRow, String> {
    let seen = marked.map_or(0, |marked| marked.batches.len());
    if let Some(spoilt) = marked.and_then(|marked| marked.spoilt) {
        return Err(spoilt.to_owned());
    }
    let Some(marked) = marked.filter(|_| seen == batches.ticks.len()) else {
        let wanted = batches.ticks.len();
        return Err(format!("{seen} of its {wanted} batches are in the trace"));
    };
    #[allow(clippy::cast_precision_loss, reason = "far fewer operations than 2^53")]
    let operations = batches.operations as f64;
    let runs = marked.batches.iter();
    let caused: Vec<_> = runs.clone().map(|batch| batch.caused(operations)).collect();
    let reasons: Vec<_> = runs.map(|batch| (batch, operations)).collect();
    Ok(OfRow {
        exits: Exits::of(&caused),
        reasons: ExitReasons::of(&reasons),
    })
}

#[cfg(test)]
#[path = "counted_test.rs"]
mod tests;
