// The start of a bzImage (Linux, Documentation/arch/x86/boot.rst, protocol 2.15): the setup sector with its 16-bit
// entry, and the code at 1 MiB with the 32-bit entry at its start and the 64-bit entry 0x200 after it. The image
// contains this code as data, and the library puts it in front of a copy of the image.
//
// The code copies the image to 2 MiB. It uses only what is loaded with it: at a 64-bit entry, perhaps only the image is
// mapped, including its init_size.

    .set LOADED_AT, 0x100000
    .set IMAGE_AT, 0x200000
    .set INIT_SIZE, 0x400000
    .set SECTOR, 512

    .section .bzimage, "a"
    .code16
bz_setup:
    .org 0x1f1
    .byte 1                             // setup_sects: one after this
    .word 0
    .globl bz_syssize
bz_syssize:
    .long 0                             // filled in: 16-byte units after the setup
    .word 0, 0xffff, 0
    .word 0xaa55
    .byte 0xeb, bz_entry16 - 1f         // 0x200: a short jump
1:  .ascii "HdrS"
    .word 0x020f                        // protocol 2.15
    .long 0
    .word 0, 0
    .byte 0, 1                          // type_of_loader; LOADED_HIGH
    .word 0
    .long LOADED_AT                     // code32_start
    .long 0, 0, 0
    .word 0xfe00                        // heap_end_ptr
    .byte 0, 0
    .long 0                             // cmd_line_ptr
    .long 0x7fffffff                    // initrd_addr_max
    .long 0x100000                      // kernel_alignment
    .byte 1, 20                         // relocatable_kernel, which alioth insists on; min_alignment
    .word 3                             // XLF_KERNEL_64, XLF_CAN_BE_LOADED_ABOVE_4G
    .long 2047                          // cmdline_size
    .long 0
    .quad 0
    .long 0, 0                          // payload_offset, payload_length
    .quad 0
    .quad LOADED_AT                     // pref_address
    .long INIT_SIZE
    .org 0x270
bz_entry16:                             // DS: the segment of the setup
    cli
    xorl %ebx, %ebx
    movw %ds, %bx
    shll $4, %ebx
    leal (bz_gdt - bz_setup)(%ebx), %eax
    movl %eax, bz_gdt_pointer - bz_setup + 2
    lgdtl bz_gdt_pointer - bz_setup
    movl %ebx, %esi                     // struct boot_params: the setup header lies where it belongs in it
    movl %cr0, %eax
    orl $1, %eax
    movl %eax, %cr0
    ljmpl $0x10, $LOADED_AT
    .balign 8
bz_gdt:
    .quad 0, 0, 0x00cf9b000000ffff, 0x00cf93000000ffff
bz_gdt_pointer:
    .word 31
    .long 0
    .org 2 * SECTOR

    .code32
bz_entry32:                             // ESI: struct boot_params
    cli
    cld
    movl %esi, %ebx
    movl $0x18, %eax                    // __BOOT_DS
    movl %eax, %ds
    movl %eax, %es
    movl %eax, %ss
    movl $IMAGE_AT, %esp                // below the image, above what was loaded
    call 1f
1:  popl %esi
    addl $bz_image - 1b, %esi
    movl $IMAGE_AT, %edi
    movl bz_words - bz_image(%esi), %ecx
    rep movsl
    movl $entry_linux32, %eax
    jmp *%eax
    .org 2 * SECTOR + 0x200
    .code64
    cli
    cld
    movq %rsi, %rbx
    leaq bz_image(%rip), %rsi
    movl $IMAGE_AT, %edi
    movl bz_words(%rip), %ecx
    rep movsl
    movq %rbx, %rsi
    movl $entry_linux64, %eax
    jmp *%rax
    .balign 16
bz_words:
    .long 0                             // filled in: the image's length in words
    .balign 16
bz_image:
