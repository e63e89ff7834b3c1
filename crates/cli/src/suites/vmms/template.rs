//! The command line of a VMM: words with places for the image, its command line and a disk.
//!
//! One that the user gives is split into words without a shell. What is put into a place stays within its word. One that is a
//! single word is the path of a VMM that `launcher` knows by the name.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use shell_words::ParseError;

use vmbell_bench::did_you_mean;

/// The places of the image's path as an ELF and as a bzImage, without which a command would not run the image.
const IMAGE: &str = "{image}";
pub(super) const BZIMAGE: &str = "{bzimage}";
/// The place of a file with Firecracker's configuration.
pub(super) const CONFIG: &str = "{config}";
/// All places.
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

/// Why a template cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum TemplateError {
    /// There is no `=`, or nothing before it.
    #[error(
        "expected NAME=COMMAND, such as my-vmm='my-vmm --kernel {{image}} --append {{cmdline}}'"
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
    #[error("the command has no {{image}} or {{bzimage}}, so it would not run the image")]
    NoImage,
    /// It has a place that nothing takes, which the VMM would get as it is.
    #[error("the command has {place}, which stands for nothing{hint}")]
    Place {
        /// The place.
        place: String,
        /// The place that may be meant.
        hint: String,
    },
}

/// A VMM by its command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct VmmTemplate {
    /// The name of its column.
    pub(super) name: String,
    /// The program and its arguments.
    pub(super) words: Vec<String>,
}

impl VmmTemplate {
    /// The program of a VMM whose command line is known, if it is no more than that.
    pub(super) fn program(&self) -> Option<&str> {
        match self.words.as_slice() {
            [word] if !has_image(word) => Some(word),
            _ => None,
        }
    }
}

/// What takes the places.
#[derive(Clone, Copy, Debug)]
pub(super) struct TemplateValues<'a> {
    /// The image's path.
    pub(super) image: &'a Path,
    /// Its path as a bzImage.
    pub(super) bzimage: &'a Path,
    /// The path of Firecracker's configuration.
    pub(super) config: &'a Path,
    /// Its command line.
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

/// What looks like a placeholder, a lower-case word in braces, but has no meaning.
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

/// The word with its places taken; what takes one is not looked at for others. `{disk,,}` is the disk's path as the value of one of
/// the options of QEMU or vmbell, where two commas stand for one that belongs to the value.
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
