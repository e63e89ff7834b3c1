//! Names code by its debug information: the functions at an address with those inlined into it, their files and lines.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::signals;

/// A function at an address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Frame {
    /// The file and the line, which is 0 if it is unknown. `None` if the program has no debug information.
    pub(crate) line: Option<(PathBuf, u32)>,
    /// The path of the function, without generic arguments.
    pub(crate) path: String,
    /// The address as an offset from the function's, which is the same in each run.
    pub(crate) offset: usize,
    pub(crate) origin: Origin,
}

/// Whose code a function is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Origin {
    Own,
    /// A wrapper of an access: an atomic of `core`, or vm-memory.
    Access,
    /// Another part of the standard library.
    Standard,
}

impl Frame {
    /// Whether the function is one of core's atomics, which others call for their own operations.
    pub(crate) fn is_atomic(&self) -> bool {
        self.line
            .as_ref()
            .is_some_and(|(file, _)| is_of_atomics(file))
    }

    /// The function's name.
    pub(crate) fn function(&self) -> &str {
        self.path.rsplit("::").next().unwrap_or_default()
    }
}

impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.function())?;
        match &self.line {
            Some((file, line)) if *line > 0 => {
                let name = file.file_name().unwrap_or_default();
                write!(f, ", {}:{line}", Path::new(name).display())
            }
            _ => Ok(()),
        }
    }
}

/// Returns the function and line of the call that returns to `address`.
pub(crate) fn site_name(address: usize) -> String {
    resolve(address).unwrap_or_else(|| format!("{address:#x}"))
}

/// Names the place of an event of a trace, from the return addresses of the hook and its callers.
pub(crate) fn caller_name(callers: &[usize]) -> Option<String> {
    callers.iter().find_map(|&address| resolve(address))
}

/// Names the place of a crash. For a crash inside the C library, as in `abort`, names the function that called it.
pub(crate) fn crash_name(callers: &[usize]) -> String {
    let callers = callers.iter().copied().take_while(|&address| address != 0);
    let (mut own, mut other): (Vec<_>, Vec<_>) =
        callers.partition(|&address| signals::is_in_program(address));
    own.append(&mut other);
    let names: Vec<String> = own.into_iter().filter_map(resolve).collect();
    // Functions without a file belong to a library without debug information.
    let has_file = |name: &&String| name.contains(", ");
    let name = names.iter().find(has_file).or(names.first()).cloned();
    name.unwrap_or_else(|| "unknown code".to_string())
}

/// Names the innermost function at an address, not counting libraries.
fn resolve(address: usize) -> Option<String> {
    let frames = frames(address);
    let own = frames.iter().find(|frame| frame.origin == Origin::Own);
    own.map(Frame::to_string)
}

/// The functions at a return address, the innermost first.
pub(crate) fn frames(address: usize) -> Arc<[Frame]> {
    static KNOWN: Mutex<Option<HashMap<usize, Arc<[Frame]>>>> = Mutex::new(None);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = known.get_or_insert_default();
    known
        .entry(address)
        .or_insert_with(|| look_up(address))
        .clone()
}

fn look_up(address: usize) -> Arc<[Frame]> {
    let mut found = Vec::new();
    // `resolve` looks up the byte before the address, because the byte after a call may belong to another line.
    backtrace::resolve(std::ptr::without_provenance_mut(address), |symbol| {
        let file = symbol.filename().map(Path::to_path_buf);
        let name = symbol.name().map(|name| format!("{name:#}"));
        found.push(Frame {
            origin: file.as_deref().map_or(Origin::Own, origin),
            // Code that the compiler merged has no line.
            line: file.map(|file| (file, symbol.lineno().unwrap_or(0))),
            path: without_generics(&name.unwrap_or_default()),
            offset: address - symbol.addr().map_or(0, |start| start.addr()),
        });
    });
    found.into()
}

fn is_of_atomics(file: &Path) -> bool {
    file.ends_with("core/src/sync/atomic.rs")
}

fn origin(file: &Path) -> Origin {
    let mut parts = file.iter().filter_map(|part| part.to_str());
    if parts.clone().any(|part| part.starts_with("vm-memory-")) || is_of_atomics(file) {
        Origin::Access
    } else if parts.any(|part| matches!(part, "rustc" | "library")) {
        Origin::Standard
    } else {
        Origin::Own
    }
}

/// A path without its generic arguments.
fn without_generics(name: &str) -> String {
    let mut depth = 0;
    let outside = |letter: &char| match letter {
        '<' => {
            depth += 1;
            false
        }
        '>' => {
            depth -= 1;
            false
        }
        _ => depth == 0,
    };
    name.chars().filter(outside).collect()
}
