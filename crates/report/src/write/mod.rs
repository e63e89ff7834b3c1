//! The forms in which people read [`Block`](crate::Block)s: one writer each for the terminal, Markdown and HTML.

pub(crate) mod html;
pub(crate) mod markdown;
pub(crate) mod terminal;
