//! The measurements of each machine, as a table.

use vmbell_statistics::median;

use super::run::TimedRun;

/// The runs of one kind, cold or warm.
#[derive(Debug, Default)]
pub(super) struct Starts {
    /// The runs of the program that does nothing.
    pub(super) empty: Vec<TimedRun>,
    /// The runs of the program that prints a line.
    pub(super) line: Vec<TimedRun>,
}

/// The measurements of a machine.
#[derive(Debug)]
pub(super) struct MeasuredMachine {
    pub(super) machine: String,
    pub(super) cold: Starts,
    /// The warm runs; `None` if QEMU cannot save the machine.
    pub(super) saved: Option<SavedStarts>,
}

/// The measurements of a saved machine.
#[derive(Debug)]
pub(super) struct SavedStarts {
    pub(super) warm: Starts,
    /// The first warm run, which made the state.
    pub(super) made: TimedRun,
    /// The size of the state on disk, in bytes.
    pub(super) size: u64,
}

impl Starts {
    fn cpu(&self) -> f64 {
        middle(&self.empty, |run| Some(run.cpu))
    }

    fn wall(&self) -> f64 {
        middle(&self.empty, |run| Some(run.wall))
    }

    fn first_line(&self) -> f64 {
        middle(&self.line, |run| run.first_line)
    }
}

/// Returns the median over the runs; NaN if no run has the value.
fn middle(runs: &[TimedRun], seconds: impl FnMut(&TimedRun) -> Option<f64>) -> f64 {
    let seconds: Vec<f64> = runs.iter().filter_map(seconds).collect();
    median(&seconds).unwrap_or(f64::NAN)
}

/// Returns a table in Markdown.
pub(super) fn table(rows: &[MeasuredMachine]) -> String {
    let mut text = "\
        | machine | CPU s: cold | warm | cold / warm | made | made / cold | wall s: cold | warm | made \
        | first line, s: cold | warm | state, MB |\n\
        |---|---|---|---|---|---|---|---|---|---|---|---|\n"
        .to_owned();
    for row in rows {
        let cold = &row.cold;
        // A figure of a saved machine, or a dash if QEMU cannot save the machine.
        let saved = |figure: &dyn Fn(&SavedStarts) -> String| {
            let figure = row.saved.as_ref().map(figure);
            figure.unwrap_or_else(|| "-".to_owned())
        };
        let cells = [
            row.machine.clone(),
            format!("{:.2}", cold.cpu()),
            saved(&|saved| format!("{:.2}", saved.warm.cpu())),
            saved(&|saved| format!("{:.1}", cold.cpu() / saved.warm.cpu())),
            saved(&|saved| format!("{:.2}", saved.made.cpu)),
            saved(&|saved| format!("{:.2}", saved.made.cpu / cold.cpu())),
            format!("{:.2}", cold.wall()),
            saved(&|saved| format!("{:.2}", saved.warm.wall())),
            saved(&|saved| format!("{:.2}", saved.made.wall)),
            format!("{:.2}", cold.first_line()),
            saved(&|saved| format!("{:.2}", saved.warm.first_line())),
            saved(&|saved| format!("{}", saved.size / 1_000_000)),
        ];
        text += &format!("| {} |\n", cells.join(" | "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(cpu: [f64; 3]) -> Vec<TimedRun> {
        let run = |cpu: f64| TimedRun {
            messages: String::new(),
            cpu,
            wall: cpu * 2.0,
            first_line: Some(cpu / 2.0),
        };
        cpu.map(run).to_vec()
    }

    fn starts(cpu: [f64; 3]) -> Starts {
        Starts {
            empty: runs(cpu),
            line: runs(cpu),
        }
    }

    #[test]
    fn a_row_has_medians_and_their_ratios_and_dashes_without_a_state() {
        let measured = MeasuredMachine {
            machine: "x86_64, Linux 6.12.1, functional, depth 1".to_owned(),
            cold: starts([4.0, 9.0, 3.0]),
            saved: Some(SavedStarts {
                warm: starts([0.5, 0.4, 7.0]),
                made: runs([5.0; 3]).remove(0),
                size: 107_290_000,
            }),
        };
        let booted = MeasuredMachine {
            machine: "aarch64, Linux 7.3.4, functional, depth 2".to_owned(),
            cold: starts([4.0; 3]),
            saved: None,
        };
        let text = table(&[measured, booted]);
        let (title, row) = (text.lines().next().unwrap(), text.lines().nth(2).unwrap());
        assert_eq!(
            row,
            "| x86_64, Linux 6.12.1, functional, depth 1 | 4.00 | 0.50 | 8.0 | 5.00 | 1.25 \
             | 8.00 | 1.00 | 10.00 | 2.00 | 0.25 | 107 |"
        );
        assert_eq!(
            text.lines().nth(3).unwrap(),
            "| aarch64, Linux 7.3.4, functional, depth 2 | 4.00 | - | - | - | - | 8.00 | - | - | 2.00 | - | - |"
        );
        assert!(
            text.lines()
                .all(|line| line.matches('|').count() == title.matches('|').count())
        );
    }
}
