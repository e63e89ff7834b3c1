//! The error type of the lab: what failed, what the user can do about it, and the cause.

use std::borrow::Cow;
use std::error::Error;
use std::io;
use std::path::Path;

type Cause = Box<dyn Error + Send + Sync>;

/// An error of the lab or of one of its parts.
#[derive(Debug, thiserror::Error)]
#[error("{what}{}", .hint.as_ref().map(|hint| format!(": {hint}")).unwrap_or_default())]
pub struct LabError {
    what: String,
    hint: Option<Cow<'static, str>>,
    kind: LabFailure,
    #[source]
    cause: Option<Cause>,
}

/// The kind of a failure, for code that handles kinds differently.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LabFailure {
    /// Any other failure.
    #[default]
    Other,
    /// The package sources do not have the package.
    Missing,
    /// The content of a cache entry or saved state has changed. Making it again repairs it.
    Damaged,
    /// A boot ended without a report about the program.
    Boot,
    /// L1's kernel panicked or QEMU crashed in each boot; the number of boots.
    Crash(u32),
    /// L1 stopped answering in each boot; the number of boots.
    Silent(u32),
    /// A time limit expired.
    TimeLimit,
    /// A Linux inside L1 waited with its interrupts off. A retry at a different moment may succeed.
    Spun,
}

impl LabError {
    /// Makes an error. The text is a whole sentence that names the operands, in lower case and without a full stop.
    pub(crate) fn new(what: String) -> Self {
        Self {
            what,
            hint: None,
            kind: LabFailure::Other,
            cause: None,
        }
    }

    /// Adds what the user can do: an option, a package, a command.
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

    /// Returns the same error with a different text.
    pub(crate) fn reworded(mut self, word: impl FnOnce(&str) -> String) -> Self {
        self.what = word(&self.what);
        self
    }

    /// The kind of the failure.
    pub fn kind(&self) -> LabFailure {
        self.kind
    }

    /// Returns whether the cause is a read-only file system or missing permission.
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

/// Makes a [`LabError`] from a text in the form of `format!`.
macro_rules! failed {
    ($($text:tt)+) => {
        $crate::error::LabError::new(format!($($text)+))
    };
}
pub(crate) use failed;

/// Makes the error of an action on an operand (a file, folder or program): `cannot read /boot/vmlinuz`.
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
