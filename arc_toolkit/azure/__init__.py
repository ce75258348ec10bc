"""The only package that imports azure.*"""
