//! The error of all parts of the lab: what failed, what a person can do about it, and the cause.

use std::borrow::Cow;
use std::error::Error;
use std::io;
use std::path::Path;

type Cause = Box<dyn Error + Send + Sync>;

/// Why the lab, or a part of it, cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{what}{}", .hint.as_ref().map(|hint| format!(": {hint}")).unwrap_or_default())]
pub struct LabError {
    what: String,
    hint: Option<Cow<'static, str>>,
    kind: LabFailure,
    #[source]
    cause: Option<Cause>,
}

/// What code decides on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LabFailure {
    /// Any failure that is not one of these.
    #[default]
    Other,
    /// The package sources do not have it.
    Missing,
    /// An entry of the cache or a saved state is not what was written. Making it again repairs it.
    Damaged,
    /// A boot has ended without a result of the program.
    Boot,
    /// L1's kernel panicked, or QEMU crashed, in each of this number of boots.
    Crash(u32),
    /// L1 stopped answering in each of this number of boots.
    Silent(u32),
    /// A time limit expired.
    TimeLimit,
    /// A Linux inside L1 waited with its interrupts off, which it may not do at another moment.
    Spun,
}

impl LabError {
    /// The text is a whole sentence, in lower case and without a full stop, that has the operands of what failed.
    pub(crate) fn new(what: String) -> Self {
        Self {
            what,
            hint: None,
            kind: LabFailure::Other,
            cause: None,
        }
    }

    /// Adds what a person can do: an option, a package, a command.
    pub(crate) fn hint(mut self, hint: impl Into<Cow<'static, str>>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn of(mut self, kind: LabFailure) -> Self {
        self.kind = kind;
        self
    }

    pub(crate) fn because(mut self, cause: impl Into<Cause>) -> Self {
        self.cause = Some(cause.into());
        self
    }

    /// The same error with another text.
    pub(crate) fn reworded(mut self, word: impl FnOnce(&str) -> String) -> Self {
        self.what = word(&self.what);
        self
    }

    /// What code decides on.
    pub fn kind(&self) -> LabFailure {
        self.kind
    }

    /// Whether the file system is read-only, or only others may write.
    pub(crate) fn is_read_only(&self) -> bool {
        let cause = self.cause.as_ref().and_then(|cause| cause.downcast_ref());
        cause.is_some_and(|cause: &io::Error| {
            let kinds = [
                io::ErrorKind::ReadOnlyFilesystem,
                io::ErrorKind::PermissionDenied,
            ];
            kinds.contains(&cause.kind())
        })
    }
}

/// A [`LabError`] with a text in the form of `format!`.
macro_rules! failed {
    ($($text:tt)+) => {
        $crate::error::LabError::new(format!($($text)+))
    };
}
pub(crate) use failed;

/// The error of an operation, a verb, on a file, a folder, a program or what else is named: `cannot read /boot/vmlinuz`.
pub(crate) fn cannot<C: Into<Cause>>(
    action: &str,
    operand: impl AsRef<Path>,
) -> impl FnOnce(C) -> LabError {
    move |cause| failed!("cannot {action} {}", operand.as_ref().display()).because(cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_ends_with_what_to_do_and_the_cause_follows() {
        let error = cannot("read", "/boot/a")(io::Error::from(io::ErrorKind::NotFound));
        let error = error.hint("name it with --kernel").of(LabFailure::Missing);
        assert_eq!(
            error.to_string(),
            "cannot read /boot/a: name it with --kernel"
        );
        assert_eq!(error.kind(), LabFailure::Missing);
        assert_eq!(error.source().unwrap().to_string(), "entity not found");
    }

    #[test]
    fn a_folder_of_others_is_as_good_as_read_only() {
        for (kind, expected) in [
            (io::ErrorKind::PermissionDenied, true),
            (io::ErrorKind::ReadOnlyFilesystem, true),
            (io::ErrorKind::StorageFull, false),
        ] {
            let error = cannot("write", "a")(io::Error::from(kind));
            assert_eq!(error.is_read_only(), expected, "{kind}");
        }
        assert!(!failed!("no").is_read_only());
    }
}
