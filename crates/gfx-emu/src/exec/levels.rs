//! Handlers in one copy for each level of the host's vector units.

/// Picks the copy of a handler that [`leveled`] made for a level.
macro_rules! pick {
    ($c:expr, $module:ident $(::<$($arg:ident),*>)?) => {
        match $c.level {
            #[cfg(target_arch = "x86_64")]
            $crate::exec::Level::V4 => $module::v4 $(::<$($arg),*>)? as $crate::exec::Handler,
            #[cfg(target_arch = "x86_64")]
            $crate::exec::Level::V3 => $module::v3 $(::<$($arg),*>)?,
            _ => $module::base $(::<$($arg),*>)?,
        }
    };
}

/// Makes a module `$name` with copies `base`, `v3` and `v4` of the inlined handler body `$body`.
macro_rules! leveled {
    ($name:ident = $body:ident $(<const $arg:ident: $type:ty>)?) => {
        mod $name {
            use super::$body as body;
            use $crate::exec::{Env, Flow, Step, Wave};

            pub(super) unsafe fn base $(<const $arg: $type>)? (step: &Step, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
                // SAFETY: as the caller of a handler vouches for.
                unsafe { body $(::<$arg>)? (step, wave, env) }
            }

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,popcnt,lzcnt")]
            pub(super) unsafe fn v3 $(<const $arg: $type>)? (step: &Step, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
                // SAFETY: as the caller of a handler vouches for.
                unsafe { body $(::<$arg>)? (step, wave, env) }
            }

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,popcnt,lzcnt,avx512f,avx512bw,avx512dq,avx512vl")]
            pub(super) unsafe fn v4 $(<const $arg: $type>)? (step: &Step, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
                // SAFETY: as the caller of a handler vouches for.
                unsafe { body $(::<$arg>)? (step, wave, env) }
            }
        }
    };
}

pub(super) use {leveled, pick};
