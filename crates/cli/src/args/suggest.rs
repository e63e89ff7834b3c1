//! Suggests a name for one that was mistyped.

/// How alike two names must be (0 to 1) for one to be suggested in place of the other.
const ALIKE: f64 = 0.6;

/// `, did you mean 'NAME'?` with the name of `names` that is most like `typed`, or nothing if none is
/// alike.
pub(crate) fn did_you_mean(typed: &str, names: &[&str]) -> String {
    let alike = names
        .iter()
        .map(|name| (strsim::jaro_winkler(typed, name), name))
        .filter(|(likeness, _)| *likeness >= ALIKE)
        .max_by(|a, b| a.0.total_cmp(&b.0));
    alike.map_or_else(String::new, |(_, name)| format!(", did you mean '{name}'?"))
}
