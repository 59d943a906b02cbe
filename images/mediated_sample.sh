#!/bin/sh
# Put the kernel's own sample of mediated devices (mtty) into a tree, as a module of the tree's kernel: Debian's kernels come without it.
# usage: mediated_sample.sh TREE
#
# Compiler, headers and source stay out of the tree: they are unpacked into a copy whose files are links to the tree's.
set -eu
tree=$1
build=$1.build
kernel=$(ls "$tree/lib/modules")
sample=samples/vfio-mdev/mtty.c

chroot "$tree" apt-get install --yes --quiet --download-only --no-install-recommends "linux-headers-$kernel" linux-source make
rm -rf "$build"
cp --archive --link --one-file-system "$tree" "$build"
for package in "$build"/var/cache/apt/archives/*.deb; do
  case $package in
    */linux-source-*) source=$package ;;
    *) dpkg-deb --fsys-tarfile "$package" | tar --extract --directory "$build" --keep-directory-symlink ;;
  esac
done
mkdir "$build/sample"
# It ends at the file that is looked for, with the others' ends of the pipe closed.
dpkg-deb --fsys-tarfile "$source" | tar --extract --to-stdout --wildcards './usr/src/linux-source-*.tar.xz' \
  | tar --extract --xz --directory "$build/sample" --strip-components=3 --occurrence=1 --wildcards "*/$sample" || true
echo 'obj-m := mtty.o' >"$build/sample/Makefile"
chroot "$build" make -C "/lib/modules/$kernel/build" M=/sample modules
mkdir -p "$tree/lib/modules/$kernel/updates"
cp "$build/sample/mtty.ko" "$tree/lib/modules/$kernel/updates/"
chroot "$tree" depmod "$kernel"
rm -rf "$build"
