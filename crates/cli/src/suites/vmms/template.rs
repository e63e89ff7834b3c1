//! The command line of a VMM: words with placeholders for the image, its command line and a disk.
//!
//! A user's command is split into words without a shell. A placeholder's value stays within its word. A single word is
//! the program of a VMM that `launcher` knows by that name.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use shell_words::ParseError;

use vmbell_bench::did_you_mean;

/// The placeholders for the image's path as an ELF and as a bzImage. Without either, a command would not run the image.
const IMAGE: &str = "{image}";
pub(super) const BZIMAGE: &str = "{bzimage}";
/// The placeholder for a file with Firecracker's configuration.
pub(super) const CONFIG: &str = "{config}";
/// All placeholders.
const PLACES: [&str; 9] = [
    IMAGE,
    BZIMAGE,
    CONFIG,
    "{cmdline}",
    "{disk}",
    "{disk,,}",
    "{cpus}",
    "{memory}",
    "{accel}",
];

/// Why a template is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum TemplateError {
    /// There is no `=`, or nothing before it.
    #[error(
        "expected NAME=COMMAND, such as my-vmm='my-vmm --kernel {{image}} --append {{cmdline}}'"
    )]
    NoName,
    /// The name does not fit into tables and file names.
    #[error("the name '{0}' may have only letters, digits, '.', '_' and '-', at most 32 in all")]
    Name(String),
    /// The command cannot be split into words.
    #[error("the command cannot be split into words: {0}")]
    Words(String),
    /// There is no placeholder for the image.
    #[error("the command has no {{image}} or {{bzimage}}, so it would not run the image")]
    NoImage,
    /// An unknown placeholder, which the VMM would get as it is.
    #[error("the command has the unknown placeholder {place}{hint}")]
    Place {
        /// The placeholder.
        place: String,
        /// The placeholder that may be meant.
        hint: String,
    },
}

/// A VMM by its command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct VmmTemplate {
    /// The column's name.
    pub(super) name: String,
    /// The program and its arguments.
    pub(super) words: Vec<String>,
}

impl VmmTemplate {
    /// The only word, which is the program of a known VMM; `None` if there are more words.
    pub(super) fn program(&self) -> Option<&str> {
        match self.words.as_slice() {
            [word] if !has_image(word) => Some(word),
            _ => None,
        }
    }
}

/// The values of the placeholders.
#[derive(Clone, Copy, Debug)]
pub(super) struct TemplateValues<'a> {
    /// The image's path.
    pub(super) image: &'a Path,
    /// The path of the image as a bzImage.
    pub(super) bzimage: &'a Path,
    /// The path of Firecracker's configuration.
    pub(super) config: &'a Path,
    /// The image's command line.
    pub(super) cmdline: &'a str,
    /// The path of a disk.
    pub(super) disk: &'a Path,
    /// How many vCPUs.
    pub(super) cpus: u32,
    /// Memory in MiB.
    pub(super) memory: u32,
    /// `kvm` or `tcg`, for QEMU.
    pub(super) accel: &'a str,
}

/// Parses `NAME=COMMAND`.
pub(super) fn parse(text: &str) -> Result<VmmTemplate, TemplateError> {
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
    if let Some(place) = words.iter().flat_map(|word| unknown_places(word)).next() {
        return Err(TemplateError::Place {
            hint: did_you_mean(place, &PLACES),
            place: place.to_owned(),
        });
    }
    if words.is_empty() || words.len() > 1 && !words.iter().any(|word| has_image(word)) {
        return Err(TemplateError::NoImage);
    }
    Ok(VmmTemplate {
        name: name.to_owned(),
        words,
    })
}

/// What looks like a placeholder (a lower-case word in braces) but is not known.
fn unknown_places(word: &str) -> impl Iterator<Item = &str> {
    let braces = word.match_indices('{').filter_map(|(from, _)| {
        let len = word[from..].find('}')?;
        Some(&word[from..=from + len])
    });
    braces.filter(|place| {
        let name = &place[1..place.len() - 1];
        let is_word = !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase());
        is_word && !PLACES.contains(place)
    })
}

fn has_image(word: &str) -> bool {
    [IMAGE, BZIMAGE, CONFIG]
        .iter()
        .any(|place| word.contains(place))
}

/// Replaces the placeholders in a word. Values are not searched for placeholders. `{disk,,}` is the disk's path in an
/// option of QEMU or vmbell, where two commas mean a comma in the value.
pub(super) fn filled(word: &str, places: TemplateValues<'_>) -> OsString {
    let disk = places.disk.as_os_str();
    let escaped: Vec<&[u8]> = disk.as_bytes().split(|byte| *byte == b',').collect();
    let values: [OsString; PLACES.len()] = [
        places.image.into(),
        places.bzimage.into(),
        places.config.into(),
        places.cmdline.into(),
        disk.into(),
        OsString::from_vec(escaped.join(&b",,"[..])),
        places.cpus.to_string().into(),
        places.memory.to_string().into(),
        places.accel.into(),
    ];
    let mut filled = OsString::new();
    let mut rest = word;
    loop {
        let found = PLACES
            .iter()
            .zip(&values)
            .filter_map(|(place, value)| Some((rest.find(place)?, place, value)));
        let Some((at, place, value)) = found.min_by_key(|(at, ..)| *at) else {
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
