// The entries: Multiboot 1, PVH and a bzImage in 32-bit mode, and Linux's 64-bit entry. All lead to probe_main in
// 64-bit mode with the low 4 GiB mapped to themselves.

    .set BOOT_PVH, 1
    .set BOOT_MULTIBOOT, 2
    .set BOOT_LINUX64, 3

    // Multiboot 1, with addresses (flag 16): QEMU refuses a 64-bit ELF without them.
    .section .head, "ax"
    .balign 4
multiboot_header:
    .long 0x1badb002, 0x00010003, -(0x1badb002 + 0x00010003)
    .long multiboot_header, image_start, image_data_end, image_end, entry_multiboot

    // The places of a bzImage's pieces, for the library, which makes it.
    .ascii "vmbellbz"
    .long bz_setup, bz_image, bz_syssize, bz_words

    // XEN_ELFNOTE_PHYS32_ENTRY. Its descriptor has 8 bytes, because QEMU reads that many from a 64-bit ELF.
    .section .note.Xen, "a", @note
    .balign 4
    .long 4, 8, 18
    .asciz "Xen"
    .quad entry_pvh

    .section .text.boot, "ax"
    .code32
entry_linux32:                          // EBX: struct boot_params
    movl $BOOT_LINUX64, %ebp
    jmp 1f
entry_multiboot:
    movl $BOOT_MULTIBOOT, %ebp
    jmp 1f
entry_pvh:
    movl $BOOT_PVH, %ebp
1:  cli
    cld
    // Some loaders do not clear .bss (gokvm fills memory with a pattern).
    movl $image_data_end, %edi
    movl $image_bss_words, %ecx
    xorl %eax, %eax
    rep stosl
    movl $boot_stack_top, %esp
    movl %ebp, BOOT_KIND
    movl %ebx, BOOT_INFO
    call map_low_memory
    movl $pml4, %eax
    movl %eax, %cr3
    movl %cr4, %eax
    orl $0x20, %eax                     // PAE
    movl %eax, %cr4
    movl $0xc0000080, %ecx              // EFER.LME
    rdmsr
    orl $0x100, %eax
    wrmsr
    movl %cr0, %eax
    orl $0x80000001, %eax               // PG, PE
    movl %eax, %cr0
    lgdtl gdt_pointer
    ljmp $8, $long_mode

    // Maps 4 GiB in 2 MiB pages. The code is the same in 32-bit and 64-bit mode: it is assembled twice.
    .macro MAP_LOW_MEMORY
    movl $page_directories, %edi
    movl $0x83, %eax                    // present, writable, large
    movl $2048, %ecx
2:  movl %eax, (%edi)
    movl $0, 4(%edi)
    addl $0x200000, %eax
    addl $8, %edi
    decl %ecx
    jnz 2b
    movl $pdpt, %edi
    movl $page_directories + 3, %eax
    movl $4, %ecx
3:  movl %eax, (%edi)
    addl $0x1000, %eax
    addl $8, %edi
    decl %ecx
    jnz 3b
    movl $pdpt + 3, %eax
    movl %eax, pml4
    ret
    .endm
map_low_memory:
    MAP_LOW_MEMORY

    .code64
map_low_memory_64:
    MAP_LOW_MEMORY

    .globl entry_linux64
entry_linux64:                          // RSI: struct boot_params
    cli
    cld
    movq %rsi, %rbx
    // The caller's page tables may map only the image, so everything that is used until CR3 is loaded is in it.
    movl $image_data_end, %edi
    movl $image_bss_words, %ecx
    xorl %eax, %eax
    rep stosl
    movl $boot_stack_top, %esp
    movl $BOOT_LINUX64, BOOT_KIND
    movq %rbx, BOOT_INFO
    call map_low_memory_64
    movl $pml4, %eax
    movq %rax, %cr3
    lgdt gdt_pointer
    pushq $8
    pushq $long_mode
    lretq

long_mode:
    movl $16, %eax
    movl %eax, %ds
    movl %eax, %es
    movl %eax, %fs
    movl %eax, %gs
    movl %eax, %ss
    // The compiler uses SSE.
    movq %cr0, %rax
    andl $0xfffffff3, %eax              // EM and TS off
    orl $2, %eax                        // MP
    movq %rax, %cr0
    movq %cr4, %rax
    orl $0x600, %eax                    // OSFXSR, OSXMMEXCPT
    movq %rax, %cr4
    movl $boot_stack_top, %esp
    // The descriptor stores the address of the task state in pieces.
    movl $task_state, %eax
    movw %ax, gdt_task + 2
    shrl $16, %eax
    movb %al, gdt_task + 4
    movb %ah, gdt_task + 7
    movl $0x18, %eax
    ltr %ax
    xorl %ebp, %ebp
    call probe_main
4:  cli
    hlt
    jmp 4b

    .section .data.boot, "aw"
    .balign 8
gdt:
    .quad 0
    .quad 0x00af9b000000ffff            // 0x08: 64-bit code
    .quad 0x00cf93000000ffff            // 0x10: data
gdt_task:                               // 0x18: task state
    .quad 0x0000890000000067, 0
    .quad 0x00cf9b000000ffff            // 0x28: 32-bit code, for a vCPU that starts
gdt_end:
    .globl gdt_pointer
gdt_pointer:
    .word gdt_end - gdt - 1
    .quad gdt
    .balign 8
    // Interrupts and exceptions have separate stacks (IST 1 and 2): the precompiled parts of Rust's core
    // library keep data below the stack pointer (the red zone), where a CPU would push its frame.
    .long 0                             // so that what follows is aligned to 8 bytes
task_state:
    .long 0
    .quad 0, 0, 0, 0
    .quad interrupt_stack_top, exception_stack_top
    .quad 0, 0, 0, 0, 0, 0
    .word 0, 104
    .balign 8
    .globl BOOT_KIND, BOOT_INFO
BOOT_INFO:
    .quad 0
BOOT_KIND:
    .long 0

    .section .bss.boot, "aw", @nobits
    .balign 4096
    .globl pml4
pml4:
    .skip 4096
pdpt:
    .skip 4096
page_directories:
    .skip 4 * 4096
    .skip 512 * 1024
boot_stack_top:
    .skip 4096
interrupt_stack_top:
    .skip 8192
exception_stack_top:
