# A base image out of Debian's packages alone, for machines that reach no image registry.
# base.tar is what `debootstrap` laid out; `python -m tests.cluster images` makes it and builds this.
FROM scratch
ADD base.tar /
CMD ["python3"]
