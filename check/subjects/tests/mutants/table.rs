//! Explores each mutant of a list until it is killed, and prints a table.

use vmbell_check::{Explorer, Model, Report};

/// Declares the defects of one file: each has a name for the code, a description for the table and, if the mutant is
/// equivalent, the reason why.
macro_rules! defects {
    ($($name:ident $what:literal $(equivalent $reason:literal)?;)+) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        enum Defect { None, $($name),+ }

        const DEFECTS: &[(Defect, &str, Fate)] =
            &[$((Defect::$name, $what, Fate::new(&[$($reason)?]))),+];
    };
}
pub(crate) use defects;

/// What should happen to a mutant.
#[derive(Clone, Copy, Debug)]
pub enum Fate {
    Killed,
    /// The mutant has no defect that matters. The text says why.
    Equivalent(&'static str),
}

impl Fate {
    pub const fn new(reason: &[&'static str]) -> Fate {
        match reason {
            [reason, ..] => Fate::Equivalent(reason),
            [] => Fate::Killed,
        }
    }
}

/// One of the scenarios in which a mutant is explored.
pub struct Scene {
    pub name: String,
    pub explore: Box<dyn Fn(&Explorer) -> Report>,
}

/// One mutant.
pub struct Mutant {
    pub what: &'static str,
    pub fate: Fate,
    pub scenes: Vec<Scene>,
}

impl Mutant {
    /// The mutants of a list of defects.
    pub fn all<D: Copy>(
        defects: &[(D, &'static str, Fate)],
        scenes: impl Fn(D) -> Vec<Scene>,
    ) -> Vec<Mutant> {
        let defects = defects.iter().map(|&(defect, what, fate)| Mutant {
            what,
            fate,
            scenes: scenes(defect),
        });
        defects.collect()
    }
}

/// Checks that the code without a defect loses nothing.
pub fn control(scenes: Vec<Scene>) {
    for scene in scenes {
        let report = (scene.explore)(&Explorer::new());
        let good = report.failure().is_none() && report.is_complete();
        assert!(good, "{}:\n{report}", scene.name);
    }
}

/// Explores all mutants under each model, from the strongest on. Checks that there are at least `least` mutants.
///
/// Panics if a mutant has a different fate than expected.
pub fn hunt(title: &str, least: usize, mutants: Vec<Mutant>) {
    println!("\n## {title}\n\n| mutant | killed under | in | executions | seconds |");
    println!("| --- | --- | --- | --- | --- |");
    let mut wrong = Vec::new();
    assert!(mutants.len() >= least, "{} mutants", mutants.len());
    for mutant in &mutants {
        let (killed, row) = explore(mutant);
        println!("| {} | {row} |", mutant.what);
        if killed != matches!(mutant.fate, Fate::Killed) {
            wrong.push(format!("{}: {row}", mutant.what));
        }
    }
    assert!(wrong.is_empty(), "unexpected:\n{}", wrong.join("\n"));
}

fn explore(mutant: &Mutant) -> (bool, String) {
    let (mut executions, mut seconds) = (0, 0.0);
    for model in [Model::Sc, Model::Tso, Model::Rc11] {
        for scene in &mutant.scenes {
            let explorer = Explorer::new().models([model]).seconds(30);
            let report = (scene.explore)(&explorer.stop_at_first_failure());
            let verdict = &report.verdicts[0];
            executions += verdict.executions();
            seconds += verdict.seconds();
            if let Some(failure) = &verdict.failure {
                let what = failure.what.to_string();
                let what = what.lines().next().unwrap_or_default().to_string();
                let scene = &scene.name;
                let row = format!("{model}: {what} | {scene} | {executions} | {seconds:.2}");
                return (true, row);
            }
            assert!(
                verdict.complete,
                "{}, {}:\n{report}",
                mutant.what, scene.name
            );
        }
    }
    let reason = match mutant.fate {
        Fate::Equivalent(reason) => reason,
        Fate::Killed => "it is not killed",
    };
    let row = format!("equivalent: {reason} | all | {executions} | {seconds:.2}");
    (false, row)
}
