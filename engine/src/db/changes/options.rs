//! The options of a consumer of the change feed.

/// The options of a consumer of the change feed; [`Db::changes_with`](crate::Db::changes_with)
/// takes them. New ones may be added in any release, so they are set by chained calls.
///
/// ```
/// use cleavedb::ChangesOptions;
/// let options = ChangesOptions::new().pin(true);
/// assert!(options.pin && !options.visible);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChangesOptions {
    /// Hands out changes as soon as readers see them, though a power cut may still take them.
    /// Default false: only what is durable. For consumers within the process, such as a cache,
    /// which end with it.
    pub visible: bool,
    /// Keeps the log that was not handed out yet for as long as the consumer lives: nothing of it
    /// is removed, moved or punched. Default false. The space is taken beyond the ceiling, and
    /// [`Db::space`](crate::Db::space) says so. It does not hold writers up, so a consumer that
    /// does not go on can fill the disk.
    pub pin: bool,
}

impl ChangesOptions {
    /// Returns the defaults: what is durable, and no pin.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets [`ChangesOptions::visible`].
    #[must_use]
    pub fn visible(mut self, visible: bool) -> Self {
        self.visible = visible;
        self
    }

    /// Sets [`ChangesOptions::pin`].
    #[must_use]
    pub fn pin(mut self, pin: bool) -> Self {
        self.pin = pin;
        self
    }
}
