//! The command line of a VMM that this program does not know: words with places for the image, its command line and a
//! disk.
//!
//! It is split into words without a shell; what is put into a place stays within its word.

use std::ffi::OsString;
use std::path::Path;

use shell_words::ParseError;

/// The place of the image's path.
const IMAGE: &str = "{image}";
/// The place of its command line.
const CMDLINE: &str = "{cmdline}";
/// The place of the path of a disk.
const DISK: &str = "{disk}";

/// Why a template cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum TemplateError {
    /// There is no `=`, or nothing before it.
    #[error(
        "'NAME=COMMAND' is wanted, such as my-vmm='my-vmm --kernel {{image}} --append {{cmdline}}'"
    )]
    NoName,
    /// The name would spoil a table or a file's name.
    #[error(
        "the name '{0}' may have letters, digits, '.', '_' and '-' only, and at most 32 of them"
    )]
    Name(String),
    /// The command is not made of words.
    #[error("the command cannot be split into words: {0}")]
    Words(String),
    /// There is no place for the image.
    #[error("the command has no {{image}}, so it would not run the image")]
    NoImage,
}

/// A VMM by its command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Template {
    /// The name of its column.
    pub(super) name: String,
    words: Vec<String>,
}

/// What takes the places.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places<'a> {
    /// The image's path.
    pub(super) image: &'a Path,
    /// Its command line.
    pub(super) cmdline: &'a str,
    /// The path of a disk.
    pub(super) disk: &'a Path,
}

/// Parses `NAME=COMMAND`.
pub(super) fn parse(text: &str) -> Result<Template, TemplateError> {
    let (name, command) = text.split_once('=').ok_or(TemplateError::NoName)?;
    if name.is_empty() {
        return Err(TemplateError::NoName);
    }
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if !name.chars().all(is_plain) || name.len() > 32 || name.starts_with(['-', '.']) {
        return Err(TemplateError::Name(name.to_owned()));
    }
    let words = shell_words::split(command);
    let words = words.map_err(|ParseError| TemplateError::Words(ParseError.to_string()))?;
    if !words.iter().any(|word| word.contains(IMAGE)) {
        return Err(TemplateError::NoImage);
    }
    Ok(Template {
        name: name.to_owned(),
        words,
    })
}

impl Template {
    /// The program.
    pub(super) fn program(&self) -> &str {
        self.words.first().map_or("", String::as_str)
    }

    /// The words of the command.
    pub(super) fn words(&self, places: Places<'_>) -> Vec<OsString> {
        self.words.iter().map(|word| filled(word, places)).collect()
    }
}

/// The word with its places taken; what takes one is not looked at for others.
fn filled(word: &str, places: Places<'_>) -> OsString {
    let values = [
        (IMAGE, places.image.as_os_str()),
        (CMDLINE, places.cmdline.as_ref()),
        (DISK, places.disk.as_os_str()),
    ];
    let mut filled = OsString::new();
    let mut rest = word;
    loop {
        let next = values
            .iter()
            .filter_map(|(place, value)| Some((rest.find(place)?, place, value)))
            .min_by_key(|(at, ..)| *at);
        let Some((at, place, value)) = next else {
            filled.push(rest);
            return filled;
        };
        filled.push(&rest[..at]);
        filled.push(value);
        rest = &rest[at + place.len()..];
    }
}

#[cfg(test)]
#[path = "template_test.rs"]
mod tests;
