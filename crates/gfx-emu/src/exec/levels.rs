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

/// Makes a module `$name` with copies `base`, `v3` and `v4` of the inlined handler body `$body`. With `+ level` after its
/// other constant parameters the body has the level (a constant of `simd`) as its last one.
macro_rules! leveled {
    ($name:ident = $body:ident $(<const $arg:ident: $type:ty>)?) => {
        leveled!(@ $name $body [$(const $arg: $type)?] [$($arg)?] [$($arg)?] [$($arg)?]);
    };
    ($name:ident = $body:ident $(<const $arg:ident: $type:ty>)? + level) => {
        leveled!(@ $name $body [$(const $arg: $type)?] [$($arg,)? { simd::BASE }] [$($arg,)? { simd::V3 }]
            [$($arg,)? { simd::V4 }]);
    };
    (@ $name:ident $body:ident [$($parameter:tt)*] [$($base:tt)*] [$($v3:tt)*] [$($v4:tt)*]) => {
        mod $name {
            use super::$body as body;
            #[allow(unused_imports)]
            use $crate::exec::valu::simd;
            use $crate::exec::{Env, Flow, Step, Wave};

            pub(super) unsafe fn base <$($parameter)*> (step: &Step, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
                // SAFETY: as the caller of a handler vouches for.
                unsafe { body::<$($base)*>(step, wave, env) }
            }

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,popcnt,lzcnt")]
            pub(super) unsafe fn v3 <$($parameter)*> (step: &Step, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
                // SAFETY: as the caller of a handler vouches for.
                unsafe { body::<$($v3)*>(step, wave, env) }
            }

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,popcnt,lzcnt,avx512f,avx512bw,avx512dq,avx512vl")]
            pub(super) unsafe fn v4 <$($parameter)*> (step: &Step, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
                // SAFETY: as the caller of a handler vouches for.
                unsafe { body::<$($v4)*>(step, wave, env) }
            }
        }
    };
}

pub(super) use {leveled, pick};
