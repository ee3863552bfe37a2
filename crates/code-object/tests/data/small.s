// A kernel by hand: it adds one to a word of its buffer. small.co beside it is what llvm-mc 19 and ld.lld 19 make of it (agreement.rs).
	.amdgcn_target "amdgcn-amd-amdhsa--gfx942:sramecc+:xnack-"
	.amdhsa_code_object_version 5
	.text
	.protected	add_one
	.globl	add_one
	.p2align	8
	.type	add_one,@function
add_one:
	s_load_dwordx2 s[0:1], s[0:1], 0x0
	v_mov_b32_e32 v0, 0
	v_mov_b32_e32 v1, 1
	s_waitcnt lgkmcnt(0)
	global_atomic_add v0, v1, s[0:1]
	s_endpgm
.Lend:
	.size	add_one, .Lend-add_one

	.section	.rodata,"a",@progbits
	.p2align	6
	.amdhsa_kernel add_one
		.amdhsa_group_segment_fixed_size 512
		.amdhsa_kernarg_size 8
		.amdhsa_user_sgpr_kernarg_segment_ptr 1
		.amdhsa_next_free_vgpr 40
		.amdhsa_accum_offset 36
		.amdhsa_next_free_sgpr 8
		.amdhsa_float_denorm_mode_32 3
	.end_amdhsa_kernel

	.section	.data,"aw",@progbits
	.p2align	3
	.globl	pointer
	.type	pointer,@object
	.size	pointer, 8
pointer:
	.quad	add_one

	.amdgpu_metadata
---
amdhsa.version: [ 1, 2 ]
amdhsa.target: 'amdgcn-amd-amdhsa--gfx942:sramecc+:xnack-'
amdhsa.kernels:
  - .name: add_one
    .symbol: add_one.kd
    .args:
      - { .name: words, .offset: 0, .size: 8, .value_kind: global_buffer, .address_space: global }
    .kernarg_segment_size: 8
    .kernarg_segment_align: 8
    .group_segment_fixed_size: 512
    .private_segment_fixed_size: 0
    .wavefront_size: 64
    .sgpr_count: 8
    .vgpr_count: 40
    .agpr_count: 4
    .max_flat_workgroup_size: 256
    .reqd_workgroup_size: [ 64, 2, 1 ]
...
	.end_amdgpu_metadata
