//! Waiting that ends: asking again and again until a deadline, because HIP's own waits never return when a kernel hangs.

use std::time::{Duration, Instant};

use crate::api::HipError;

/// So often the question is repeated without sleeping: short kernels are done by then.
const SPINS: u32 = 64;
const FIRST_SLEEP: Duration = Duration::from_micros(10);
/// Longest sleep: late by at most this much, while a long kernel costs the host next to nothing.
const LONGEST_SLEEP: Duration = Duration::from_millis(1);

/// Asks `done` until it says so, or until the deadline.
pub(super) fn wait_until(
    what: &'static str,
    deadline: Instant,
    mut done: impl FnMut() -> Result<bool, HipError>,
) -> Result<(), HipError> {
    let begin = Instant::now();
    let mut sleep = FIRST_SLEEP;
    let mut asked = 0_u32;
    loop {
        // Asked once more after the deadline, so that work that was done in time is never called late.
        let now = Instant::now();
        if done()? {
            return Ok(());
        }
        if now >= deadline {
            return Err(HipError::Timeout { what, waited: begin.elapsed() });
        }
        if asked < SPINS {
            asked += 1;
            std::thread::yield_now();
        } else {
            std::thread::sleep(sleep.min(deadline.saturating_duration_since(now)));
            sleep = (sleep * 2).min(LONGEST_SLEEP);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_gets_done_is_waited_for() {
        let mut left = 100;
        let deadline = Instant::now() + Duration::from_secs(60);
        let result = wait_until("a test", deadline, || {
            left -= 1;
            Ok(left == 0)
        });
        assert_eq!((result, left), (Ok(()), 0));
    }

    #[test]
    fn work_that_hangs_is_given_up_at_the_deadline() {
        let begin = Instant::now();
        let error = wait_until("a test", begin + Duration::from_millis(20), || Ok(false)).unwrap_err();
        assert!(error.timed_out());
        assert!(begin.elapsed() >= Duration::from_millis(20));
    }

    #[test]
    fn a_deadline_in_the_past_still_asks_once() {
        let begin = Instant::now();
        assert_eq!(wait_until("a test", begin, || Ok(true)), Ok(()));
        assert!(wait_until("a test", begin, || Ok(false)).unwrap_err().timed_out());
    }

    #[test]
    fn an_error_ends_the_wait() {
        let wrong = HipError::invalid("lost".into());
        assert_eq!(wait_until("a test", Instant::now() + Duration::from_secs(60), || Err(wrong.clone())), Err(wrong));
    }
}
