use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{TryRecvError, channel};

use super::*;

/// Makes a request when it is dropped.
struct AsksAgain(Arc<SaveRequest>);

impl Drop for AsksAgain {
    fn drop(&mut self) {
        assert!(!self.0.make(Box::new(|_, _| AfterSave::End)));
    }
}

#[test]
fn request_is_dropped_when_the_run_panics_and_later_ones_are_refused() {
    let request = Arc::new(SaveRequest::default());
    let (answer, answers) = channel::<()>();
    let again = AsksAgain(Arc::clone(&request));
    let take = move |_: Result<PcState, BoardError>, _: &GuestMemoryMmap| {
        let _captured = (&again, &answer);
        AfterSave::End
    };
    assert!(request.make(Box::new(take)));
    assert!(!request.make(Box::new(|_, _| AfterSave::End)), "one waits");
    assert_eq!(answers.try_recv(), Err(TryRecvError::Empty));
    let run = || {
        let _run = request.during_run();
        panic!("in the run");
    };
    catch_unwind(AssertUnwindSafe(run)).unwrap_err();
    assert_eq!(answers.try_recv(), Err(TryRecvError::Disconnected));
    assert!(!request.make(Box::new(|_, _| AfterSave::End)));
}
