//! The ways in which each page is looked at.

/// A way to look at a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct View {
    pub(super) name: &'static str,
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) scheme: &'static str,
    pub(super) media: &'static str,
}

impl View {
    pub(super) const ALL: [Self; 4] = [
        Self::new("wide", 1280, 800, "light", "screen"),
        Self::new("wide-dark", 1280, 800, "dark", "screen"),
        Self::new("phone", 390, 844, "light", "screen"),
        // What A4 has between margins of a centimetre.
        Self::new("paper", 718, 1046, "dark", "print"),
    ];

    const fn new(
        name: &'static str,
        width: u32,
        height: u32,
        scheme: &'static str,
        media: &'static str,
    ) -> Self {
        Self {
            name,
            width,
            height,
            scheme,
            media,
        }
    }

    /// Whether it is a window on a desk, which axe-core looks at: light and dark.
    pub(super) fn is_wide(self) -> bool {
        self.width > 1000
    }
}
